# What scripts/pipeline and the `pipeline` of an installed package share: the data that configurations name. Sourced, after lib.sh.

# The data scripts that a config, or one that it extends, names in a line `# data: scripts/data/NAME`.
data_scripts() {
  local config=$1 line
  [[ -r $config ]] || return 0
  while IFS= read -r line || [[ -n $line ]]; do
    if [[ $line =~ ^#\ data:\ *(scripts/data/[A-Za-z0-9._-]+) ]]; then
      printf '%s\n' "${BASH_REMATCH[1]}"
    elif [[ $line =~ ^extends\ *=\ *\"([^\"]+)\" && $depth -lt 8 ]]; then
      depth=$((depth + 1)) data_scripts "${config%/*}/${BASH_REMATCH[1]}"
    fi
  done <"$config"
}

data_options=() # of every data script: in a checkout they link what they make into it

# Without the data the program may still have all it needs (--set gives files of one's own) and else names what is missing.
fetch() {
  local status=0
  "$root/$1" "${data_options[@]}" >&2 </dev/null || status=$?
  ((status < 128)) || exit "$status"
  ((status == 0)) || say "warning: $1 ended with status $status (see above): going on without its data"
}

# fetch_data VERB ARGUMENT...: fetches what is missing of the data for this command.
fetch_data() {
  local argument script
  case ${1-} in run | evaluate | predict | check | plan | find-lr | compare) ;; *) return 0 ;; esac
  for argument; do
    [[ $argument == *.toml ]] || continue
    [[ $argument == */* ]] || argument=./$argument
    while IFS= read -r script; do
      [[ -x $root/$script ]] || die "$argument names the data script $script, which is not there"
      "$root/$script" "${data_options[@]}" --check </dev/null >/dev/null 2>&1 || fetch "$script"
    done < <(depth=0 data_scripts "$argument")
  done
}
