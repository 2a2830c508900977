#!/usr/bin/env bash
# wheel_test.sh BUILD: the wheel installs into an environment with torch, which it uses, and trains tasks in C++ and in Python there.
# PIPELINE_PYTHON names a Python with that torch; exit code 77: skipped, there is none.
build=$1
here=$(realpath "${BASH_SOURCE[0]%/*}")
. "$here/../setup/check.sh"
[[ -n ${PIPELINE_PYTHON-} ]] || {
  echo "skipped: PIPELINE_PYTHON names no Python with torch"
  exit 77
}
torch=$("$PIPELINE_PYTHON" -c 'import importlib.util, os; print(os.path.dirname(os.path.dirname(importlib.util.find_spec("torch").origin)))')
unset LD_LIBRARY_PATH PIPELINE_PLUGIN_PATH PIPELINE_PYTHON VIRTUAL_ENV PYTHONPATH

cpack --config "$build/CPackConfig.cmake" -G TGZ -B packed >cpack.log 2>&1 || {
  tail -n 20 cpack.log >&2
  exit 1
}
mkdir tree
tar -xzf packed/*.tar.gz -C tree --strip-components=1
wheel=$(python3 "$here/../../scripts/setup/wheel.py" tree .)
expect "its name" "$(grep -cE '^pipeline-[0-9.]+(\+torch[0-9.]+)?-py3-none-manylinux_2_[0-9]+_x86_64.whl$' <<<"$wheel")" 1
python3 -m venv environment
environment/bin/pip install --quiet --no-deps --no-index "$wheel"
installed=$(echo "$PWD"/environment/lib/python3*/site-packages)
PATH=$PWD/environment/bin:/usr/local/bin:/usr/bin:/bin

# ends CODE TEXT COMMAND...: the command ends so, and says TEXT.
ends() {
  local code=$1 text=$2 status=0
  shift 2
  "$@" >out 2>&1 || status=$?
  expect "$* ends with" "$status" "$code"
  expect "$* says '$text'" "$(grep -qF -- "$text" out && echo yes)" yes
  [[ $status == "$code" ]] || cat out >&2
}
ends 2 "has no torch: pip install torch==" pipeline devices
ends 1 "has no torch: pip install torch==" python -c 'import pipeline; pipeline.Task'

mkdir "$installed/torch"
touch "$installed/torch/__init__.py"
echo "__version__ = '2.10.0+cpu'" >"$installed/torch/version.py"
ends 2 "is torch 2.10.0+cpu, and this pipeline is for torch 2." pipeline devices
rm -r "$installed/torch"

echo "$torch" >"$installed/torch.pth" # as if it were installed there
ends 0 "done: runs/template" pipeline run "$installed/pipeline/share/pipeline/configs/template.toml" --set train.max_steps=20 --set launch.processes=2
pipeline new task my_task --language python >/dev/null
cd my_task
ends 0 "done: runs/my_task" pipeline run my_task.toml --set train.max_steps=20 --set launch.processes=2 --set strategy.plugin=sharded
ends 0 "evaluation-val.json" python my_task.py evaluate my_task.toml --split val
for library in "$installed"/pipeline/lib/pipeline/plugins/*/*.so "$installed"/pipeline/lib/pipeline/*.so; do
  LD_LIBRARY_PATH=$torch/torch/lib ldd "$library"
done >../linked
expect "libraries that are not there" "$(grep -c 'not found' ../linked || true)" 0
expect "of this machine's, where the wheel has them" "$(grep -E 'lib(fmt|spdlog|jpeg|png16|webp|webpdemux)\.' ../linked | grep -vc "$installed" || true)" 0
finish
