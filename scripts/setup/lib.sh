# What the set-up scripts share. Sourced by them and by scripts/pipeline, whose quick path runs with every command: as few processes as can be.
root=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd -P)
cache=${XDG_CACHE_HOME:-${HOME:-~}/.cache}/pipeline
build=$root/build/release
[[ $(<"$root/cmake/TorchVersion.cmake") =~ PIPELINE_TORCH_VERSION\ ([0-9.]+).*PIPELINE_TORCH_VARIANT\ ([a-z0-9]+).*PIPELINE_TORCH_OTHER\ ([a-z0-9.+]+) ]]
torch_pinned=${BASH_REMATCH[1]}+${BASH_REMATCH[2]} torch_other=${BASH_REMATCH[3]}
torch_choice=$root/build/torch-wheel # where scripts/setup/torch --from chose the other one
torch_wheel=$torch_pinned
if [[ -f $torch_choice ]]; then torch_wheel=$(<"$torch_choice"); fi
torch_dir=$cache/torch-${torch_wheel%+*}

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}

# finish_line WHAT: says that WHAT is done and how long it took since the script started.
finish_line() { say "$1 (${SECONDS} s)"; }

# progress TEXT FIGURE STEP: one moving line on a terminal; elsewhere a line every 15 seconds, if FIGURE has grown by STEP since the last.
progress_at=0
progress_figure=0
progress() {
  if [[ -t 2 ]]; then
    printf '\rsetup: %s\033[K' "$1" >&2
  elif ((SECONDS - progress_at >= 15 && $2 - progress_figure >= $3)); then
    progress_at=$SECONDS progress_figure=$2
    say "$1"
  fi
}
progress_end() { if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi; }

# megabytes FOLDER...: their size. What vanishes meanwhile does not count.
megabytes() { { du -smx "$@" 2>/dev/null || true; } | awk '{sum += $1} END {print sum + 0}'; }

# lock FILE WHAT: holds FILE's lock until the script ends; says WHAT it waits for.
lock() {
  mkdir -p "${1%/*}"
  exec 9>"$1"
  flock -n 9 || {
    say "waiting for another process that is $2"
    flock 9
  }
}

# wheel_sets: sets `sets` to the files of scripts/setup/wheels that this machine and this checkout need.
wheel_sets() {
  sets=(cpu)
  if [[ -e /dev/nvidiactl || -e /usr/lib/wsl/lib/libcuda.so.1 ]]; then
    sets+=(cuda)
  elif [[ -d $root/backends/nccl ]]; then
    sets+=(nccl)
  fi
}

# torch_unpacked SET: whether SET was unpacked from the pins of this checkout and its libraries have the sizes they had then.
torch_unpacked() {
  local state=$torch_dir/unpacked libraries
  [[ -s $state/$1.files && -f $state/$1.libraries && $(<"$state/$1.txt") == "$(<"$root/scripts/setup/wheels/$1.txt")" ]] || return 1
  mapfile -t libraries <"$state/$1.libraries"
  ((${#libraries[@]} == 0)) ||
    [[ $(cd "$torch_dir" && stat -c '%s %n' "${libraries[@]#* }" 2>/dev/null) == "$(<"$state/$1.libraries")" ]]
}

# unchanged STAMP: whether nothing that the product is made of changed since STAMP: no source (a deleted or renamed file shows in its
# folder's time), no installed package, no pin.
unchanged() {
  local stamp=$1 set
  [[ -f $stamp && ! /var/lib/dpkg/status -nt $stamp && ! $root/scripts/setup/packages.txt -nt $stamp ]] || return 1
  wheel_sets
  for set in "${sets[@]}"; do torch_unpacked "$set" || return 1; done
  [[ -z $(cd "$root" && find CMakeLists.txt CMakePresets.json cmake core plugins backends tests/c_plugins -newer "$stamp" -print -quit) ]]
}

# built TARGET: whether build/release has it, made of the sources as they are now. The file .built is as old as the build's look at the
# sources, and names what was made of them; all of it is `product`.
built() {
  if [[ -z ${built_targets-} ]]; then
    built_targets=" "
    if [[ -x $build/bin/pipeline ]] && unchanged "$build/.built"; then built_targets=" $(<"$build/.built") "; fi
  fi
  [[ $built_targets == *" $1 "* || $built_targets == *" product "* ]]
}
