#!/bin/sh
# Builds a program against an installed Quire by pkg-config, and runs it.
# usage: pkg_config.sh PREFIX COMPILER SOURCE PROGRAM
set -eu
PKG_CONFIG_PATH=$(dirname "$(find "$1" -name quire.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046  # the flags are several words
"$2" -std=c++20 "$3" -o "$4" $(pkg-config --cflags --libs quire)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir quire) exec "$4"
