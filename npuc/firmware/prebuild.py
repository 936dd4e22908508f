"""Puts kernel images into the package, for wheels: `python -m npuc.firmware.prebuild`, then build the wheel."""

from __future__ import annotations

import shutil

from npuc.firmware.toolchain import PREBUILT, TARGETS, build_kernels, prebuilt_image


def prebuild() -> list[str]:
    """Names of the images, one for each core; older ones are removed. ToolchainError: a compiler is missing."""
    images = {prebuilt_image(target): build_kernels(name) for name, target in TARGETS.items() if not target.is_host}
    PREBUILT.mkdir(exist_ok=True)
    for old in PREBUILT.glob("*.elf"):
        old.unlink()
    for image, built in images.items():
        shutil.copyfile(built, image)
    return sorted(image.name for image in images)


if __name__ == "__main__":
    prebuild()
