# Sourced by ./mroce and .ci/run: installs what is missing of tools/packages.txt.
# shellcheck shell=bash

# package_names SECTION…: the packages of these sections.
package_names() {
  local section
  for section in "$@"; do
    awk -v want="[$section]" '/^\[/ { on = ($1 == want); next } on && NF && !/^#/ { print $1 }' \
      "$MROCE_ROOT/tools/packages.txt"
  done
}

# missing_packages SECTION…: those that dpkg does not know as installed.
missing_packages() {
  local name
  for name in $(package_names "$@"); do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || echo "$name"
  done
}

# Refreshes the lists only if one of the packages cannot be found in them.
refresh_lists_for() {
  local name
  for name in "$@"; do
    if [[ -z $(apt-cache madison "$name" 2>/dev/null) ]]; then
      "${MROCE_AS_ROOT[@]}" apt-get -q update
      return
    fi
  done
}

# install_packages SECTION…: returns 3 if that is impossible, having said what to type.
install_packages() {
  local missing
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    command -v cmake ninja g++ >/dev/null && return 0
    echo "mroce: cannot install packages without apt-get; the equivalents of these are needed:" \
      "$(package_names "$@" | tr '\n' ' ')" >&2
    return 3
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} == 0)) && return 0
  if ((EUID == 0)); then
    MROCE_AS_ROOT=(env DEBIAN_FRONTEND=noninteractive)
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    MROCE_AS_ROOT=(sudo -n env DEBIAN_FRONTEND=noninteractive)
  else
    echo "mroce: packages are missing, and installing them needs root; type:" >&2
    echo "  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    return 3
  fi
  echo "mroce: installing ${missing[*]}" >&2
  local log
  log=$(mktemp)
  local install=(apt-get -q -y --no-install-recommends install "${missing[@]}")
  if ! { refresh_lists_for "${missing[@]}" && "${MROCE_AS_ROOT[@]}" "${install[@]}"; } </dev/null >"$log" 2>&1 &&
    # The lists may be older than what the mirror still has.
    ! { "${MROCE_AS_ROOT[@]}" apt-get -q update && "${MROCE_AS_ROOT[@]}" "${install[@]}"; } </dev/null >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "mroce: apt-get could not install ${missing[*]}" >&2
    return 3
  fi
  rm -f "$log"
}
