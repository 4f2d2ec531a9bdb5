#!/usr/bin/env bash
# Runs a command as on a machine where nothing was installed yet: empty HOME, no pip cache, no virtual environment.
#   tools/bare.sh make test
# Where packages come from is a matter of the machine, so pip's settings are kept.
set -euo pipefail

for settings in ~/.pip/pip.conf ~/.config/pip/pip.conf; do
  [[ -f $settings ]] && export PIP_CONFIG_FILE=${PIP_CONFIG_FILE:-$settings}
done

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
chmod 755 "$home" # PostgreSQL of the wheel, which lies in the environment, does not run as root
unset VIRTUAL_ENV PYTHONPATH XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
HOME=$home PIP_NO_CACHE_DIR=1 VENV=$home/.venv "$@"
