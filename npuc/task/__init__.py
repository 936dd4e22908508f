"""Task IR: what each unit does, in which order, on which bytes; printable, parseable and editable by hand."""
