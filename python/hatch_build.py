"""Puts the command, the library of C and its header into the wheel, and gives the wheel its tag."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Built(BuildHookInterface):
    def initialize(self, version, build_data):
        # Set by packaging/wheel.
        library, header = os.environ["WIRELAPSE_LIBRARY"], os.environ["WIRELAPSE_HEADER"]
        build_data["shared_scripts"][os.environ["WIRELAPSE_PROGRAM"]] = "wirelapse"
        build_data["force_include"][library] = "wirelapse/libwirelapse_timestamping.so"
        build_data["force_include"][header] = "wirelapse/wirelapse_timestamping.h"
        build_data["pure_python"] = False
        build_data["tag"] = os.environ["WIRELAPSE_WHEEL_TAG"]
