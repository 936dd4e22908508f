"""Schedule quality on the 27 TFLite networks of the shared `bench/schedule-anchors.tsv`, beside Arm Vela's."""
