# tools/lib.sh: what the scripts in this folder share; sourced, never run.
# It leaves the caller at the root of the tree.
# shellcheck shell=sh disable=SC2034

set -eu
ROOT=$(cd "$(dirname "$0")/.." && pwd)
cd "$ROOT"

# Where everything fetched or built outside the tree goes.
CACHE=${CCMD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ccmd}
mkdir -p "$CACHE"
CACHE=$(cd "$CACHE" && pwd)

# A yyjson of our own, where the distribution has none. See tools/setup.
YYJSON=$CACHE/libyyjson
case ":${PKG_CONFIG_PATH-}:" in
*":$YYJSON/pkgconfig:"*) ;; # a script of this folder has called this one: a longer path would configure all builds again
*) export PKG_CONFIG_PATH="$YYJSON/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}" ;;
esac

say() {
	echo "${0##*/}: $*" >&2
}

die() {
	say "$*"
	exit 1
}

# supervise "$@": starts this script again under tools/supervise, which ends all its processes, and removes its temporary files,
# however the script ends. pytest's folders stay, in the caller's TMPDIR.
supervise() {
	if [ -n "${CCMD_SUPERVISED-}" ]; then
		unset CCMD_SUPERVISED
		return
	fi
	command -v python3 >/dev/null || tools/setup build
	export PYTEST_DEBUG_TEMPROOT="${TMPDIR:-/tmp}"
	CCMD_SUPERVISED=1 exec tools/supervise "$ROOT/tools/${0##*/}" "$@"
}

# venv_path FILE: the folder of the Python environment that FILE, a requirements.txt, describes.
venv_path() {
	echo "$CACHE/venv-$(sha256sum <"$1" | cut -c1-12)"
}

# debian_mirror: prints the mirror of Debian that this machine installs from.
debian_mirror() {
	command -v apt-get >/dev/null &&
		apt-get indextargets --format "\$(REPO_URI)" 'Identifier: Packages' |
		grep -E '/debian/?$' | head -n 1
}

# The Python of the tests, the demo and the benchmarks, of the linters, of the site, and of releases.
PYTHON=$(venv_path tools/requirements.txt)/bin/python3
LINT_BIN=$(venv_path tools/requirements-lint.txt)/bin
DOCS_BIN=$(venv_path tools/requirements-docs.txt)/bin
RELEASE_BIN=$(venv_path tools/requirements-release.txt)/bin

# configure FOLDER [MESON OPTION…]: sets a build folder up, once. Warnings are errors in CI only.
configure() {
	folder=$1
	shift
	if [ "${CI:-}" = true ]; then
		set -- --werror "$@"
	fi
	# A folder whose configuration was cut short has no build.ninja. One with other options is configured again, and so is one
	# that was copied together with the tree: Meson stores absolute paths and would build the tree it was copied from.
	# Objects are kept: Ninja makes only those again whose command has changed.
	wanted="$ROOT CC=${CC:-} PKG_CONFIG_PATH=${PKG_CONFIG_PATH:-} $*"
	if [ -e "$folder/build.ninja" ] && [ "$(cat "$folder/options" 2>/dev/null)" = "$wanted" ]; then
		return
	fi
	rm -rf "$folder/meson-private" "$folder/meson-info" "$folder/build.ninja"
	meson setup "$folder" "$@" >"$folder.log" 2>&1 || {
		cat "$folder.log" >&2
		die "meson setup $folder failed"
	}
	mv "$folder.log" "$folder/setup.log"
	echo "$wanted" >"$folder/options"
}
