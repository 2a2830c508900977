#!/usr/bin/env bash
# deb_test.sh BUILD: the Debian package is whole, names nothing of this machine, and trains from wherever it is unpacked.
build=$1
here=${BASH_SOURCE[0]%/*}
machine=${XDG_CACHE_HOME:-$HOME/.cache} # has LibTorch, which the build was made with
. "$here/../setup/check.sh"
unset LD_LIBRARY_PATH PIPELINE_PLUGIN_PATH

cpack --config "$build/CPackConfig.cmake" -G DEB -B packed >cpack.log 2>&1 || {
  tail -n 20 cpack.log >&2
  exit 1
}
deb=(packed/*.deb)
depends=$(dpkg-deb --field "${deb[0]}" Depends)
for name in libc6 'libfmt[0-9.]*' 'libspdlog[a-z0-9.-]*' 'libsentencepiece[0-9]*' python3 python3-pip ca-certificates; do
  expect "depends on $name" "$(grep -cE "(^|, )$name( |,|$)" <<<"$depends")" 1
done
expect "LibTorch is no dependency and no part" "$(dpkg-deb --contents "${deb[0]}" | grep -cE 'libtorch|libc10' || true)" 0

dpkg-deb --extract "${deb[0]}" root
prefix=root/usr
for file in bin/pipeline libexec/pipeline lib/pipeline/plugins/{tasks/template,strategies/single,backends/shm}.so include/pipeline.h \
  lib/cmake/pipeline/pipelineConfig.cmake share/pipeline/configs/{template.toml,pipeline.schema.json} share/pipeline/scripts/data/emoji \
  share/pipeline/explain/template.txt share/bash-completion/completions/pipeline share/zsh/vendor-completions/_pipeline \
  share/fish/vendor_completions.d/pipeline.fish share/man/man1/pipeline.1.gz; do
  expect "has $file" "$([[ -s $prefix/$file ]] && echo yes)" yes
done
expect "folders outside /usr" "$(ls root)" usr
expect "in lib" "$(cd "$prefix/lib" && echo *)" "cmake pipeline"
mapfile -t programs < <(find root -type f -exec sh -c 'head -c4 "$1" | grep -q ELF' sh {} \; -print)
expect "a search path of this machine" "$(readelf -d "${programs[@]}" | grep -E 'R(UN)?PATH' | grep -vE '\[(:?\$ORIGIN/[^]:]+)+\]' || true)" ""

# On a machine without LibTorch: what needs none does not fetch it.
mv "$prefix/share/pipeline/scripts/setup/torch" real_torch
printf '#!/bin/sh\necho fetched >>"%s/fetched"\nexit 3\n' "$work" >"$prefix/share/pipeline/scripts/setup/torch"
chmod +x "$prefix/share/pipeline/scripts/setup/torch"
pipeline() { "$work/$prefix/bin/pipeline" "$@"; } # its cache is the empty one of check.sh
for command in --help --version 'run --help' 'completion bash' man 'explain train' 'explain template' 'complete run --set train.'; do
  read -ra words <<<"$command"
  expect "$command" "$(pipeline "${words[@]}" >out 2>&1 && [[ -s out ]] && echo done || cat out)" "done"
done
expect "a plugin's options" "$(pipeline explain template)" "$("$build/bin/pipeline" explain template)"
expect "fetched by then" "$(cat fetched 2>/dev/null)" ""
status=0
pipeline run "$prefix/share/pipeline/configs/template.toml" >out 2>&1 || status=$?
expect "training fetches it, and ends where that fails" "$(cat fetched) $status" "fetched 3"
mv real_torch "$prefix/share/pipeline/scripts/setup/torch"

# With it: in a folder of the user's, from the package's configuration.
mkdir mine
cd mine
XDG_CACHE_HOME=$machine "../$prefix/bin/pipeline" run "../$prefix/share/pipeline/configs/template.toml" --set train.max_steps=20 --set launch.processes=2 >../out 2>&1 || cat ../out >&2
expect "it trains" "$(tail -n 1 ../out)" "done: runs/template"
finish
