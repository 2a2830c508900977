# Checks a strategy whose update is its own: the losses fall, and are the same on one and on two processes and after a stop.
set(runs ${BUILD}/runs)

function(pipeline)
  execute_process(COMMAND ${PIPELINE} ${ARGN} --set plugins.paths=["${BUILD}/plugins"] COMMAND_ERROR_IS_FATAL ANY)
endfunction()
# train(NAME STEPS): continues the run of this name, if it is there. The learning rate must not follow the length.
function(train name steps)
  pipeline(run ${CONFIG} --set run.dir=${runs}/${name} --set train.max_steps=${steps} --set schedule.kind=constant)
endfunction()

train(whole 20)
train(stopped 10)
train(stopped 20)
pipeline(compare ${runs}/whole ${runs}/stopped ${CONFIG} --processes 2 --rounds 1 --dir ${runs} --set train.max_steps=20
         --set schedule.kind=constant)

file(STRINGS ${runs}/whole/metrics.jsonl steps)
list(GET steps 0 first)
list(GET steps -1 last)
string(JSON first GET ${first} loss)
string(JSON last GET ${last} loss)
if(NOT last LESS first)
  message(FATAL_ERROR "the loss is ${first} in the first step and ${last} in the last: it must fall")
endif()
