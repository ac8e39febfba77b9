#!/bin/sh
# Debian's Chromium, in which pages are tested, where it is not there yet and can be installed.
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # Without a network it should give up soon, and wait while another program installs something.
    patience="-o Acquire::Retries=1 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 -o DPkg::Lock::Timeout=300"
    # shellcheck disable=SC2086
    apt-get $patience update -qq &&
        apt-get $patience install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null && exit 0
fi
echo "There is no Chromium, and it cannot be installed from here: the tests of pages are skipped (apt install chromium)." >&2
