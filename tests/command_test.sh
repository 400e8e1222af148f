#!/usr/bin/env bash
# The command as a person uses it: options, exit statuses, JSON fields, files.
set -uo pipefail
braid=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
graph=$root/examples/taskgraph/diamond.json
small=$root/tests/fuzz/corpus/trace/small.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

expect() {  # expect STATUS PATTERN COMMAND...
  local status=$1 pattern=$2
  shift 2
  local out rc
  out=$("$@" 2>&1)
  rc=$?
  if [ "$rc" -ne "$status" ] || ! grep -qE -- "$pattern" <<<"$out"; then
    printf 'FAILED: %s\n  status %s, expected %s; looked for: %s\n%s\n' "$*" "$rc" "$status" "$pattern" "$out"
    failed=1
  fi
}

expect 0 'verify' "$braid" --help
expect 0 '--replay' "$braid" verify --help
expect 0 '^braid [0-9]' "$braid" --version
expect 2 'subcommand' "$braid"
expect 2 'ops' "$braid" verify --ops 0
expect 2 '--inject: nonsense not in \{missing,stale_mark,superfluous,uncommitted_cursor\}$' "$braid" verify --inject nonsense
expect 2 '--mode: nonsense not in \{both,event,point\}$' "$braid" verify --mode nonsense
expect 0 '^point ' "$braid" verify --programs 2 --ops 20 --mode point
expect 2 'threads' "$braid" verify --inject missing --threads 2
expect 2 'nosuch' "$braid" verify --replay nosuch.txt
expect 0 'all in order' "$braid" verify --programs 10 --ops 50
expect 0 'all in order' "$braid" verify --programs 5 --ops 50 --threads 4
for field in programs ops conflicts_checked violations value_mismatches waits minimal_waits excess_orderings \
             dropped_waits dropped_waits_detected; do
  expect 0 "\"$field\": [0-9]" "$braid" verify --programs 3 --ops 50 --json
done
for fault in missing superfluous stale_mark uncommitted_cursor; do
  expect 1 "fault '$fault': injected in ([0-9]+) runs, caught in \\1\$" "$braid" verify --programs 10 --ops 60 --inject "$fault"
done

# What a failure prints can be run again from a file.
"$braid" verify --programs 3 --ops 60 --inject missing | sed -n '/^mode /,/^$/p' >program.txt
expect 1 'not ordered' "$braid" verify --replay program.txt
sed -i '/^inject/d' program.txt
expect 0 'all in order' "$braid" verify --replay program.txt
printf 'mode event\njump\n' >broken.txt
expect 2 'broken.txt:2:1: expected' "$braid" verify --replay broken.txt

expect 0 'streams.max +64 +default' "$braid" config
printf '[streams]\nmax = 9\n' >braid.toml
expect 0 'streams.max +9 .*braid.toml:2' "$braid" config
mkdir -p deep/er && cd deep/er || exit 1
expect 0 'streams.max +9 .*braid.toml:2' "$braid" config
cd "$work" || exit 1
BRAID_STREAMS_MAX=11 expect 0 'streams.max +11 +BRAID_STREAMS_MAX' "$braid" config
BRAID_STREAM_MAX=11 expect 0 'BRAID_STREAM_MAX is set but unknown' "$braid" config
# Those of the script and of the tests are no slips.
if BRAID_BUILD_DIR=x BRAID_SOAK_SECONDS=1 BRAID_SOAK_SEED=1 BRAID_TEST_ASYNC_MEMORY=1 BRAID_LIMIT=1 BRAID_REPETITIONS=1 \
   BRAID_HEADERS=x BRAID_TRACES_TO=x BRAID_CUDA_ARCHITECTURES=native "$braid" config 2>&1 | grep 'set but unknown'; then
  failed=1
fi
expect 0 '"source": "default"' "$braid" config --json
printf '[streams]\nmaxx = 9\n' >braid.toml
expect 2 "braid.toml:2:1: unknown key 'streams.maxx'; did you mean 'streams.max'" "$braid" config
rm braid.toml

expect 0 '--json' "$braid" info --help
expect 0 '^  sim +available' "$braid" info
expect 0 '^  cuda +(available|not available|not built) +[a-zA-Z]' "$braid" info
if "$braid" info | grep -qE '^  opencl +not built'; then
  expect 2 'has no OpenCL backend' "$braid" run stencil --backend opencl
else
  expect 0 '^  opencl +(available|not available) +[^ ]' "$braid" info
  expect 0 '^  opencl +not available +no OpenCL device: the loader knows no platform' env OCL_ICD_VENDORS=/nonexistent "$braid" info
  expect 2 'no OpenCL device: the loader knows no platform' env OCL_ICD_VENDORS=/nonexistent "$braid" run stencil --backend opencl
  expect 1 'no OpenCL device: the loader knows no platform' env OCL_ICD_VENDORS=/nonexistent "$braid" bench opencl
  expect 0 '"verified": true' "$braid" run stencil --backend opencl --size 64 --json
  expect 2 "no OpenCL device 'nothing like it'; there are 0: " "$braid" run stencil --backend opencl --device 'nothing like it'
  expect 2 'device is for CUDA and OpenCL' "$braid" run stencil --backend cpu --device 0
  expect 0 '"case": "forkjoin"' "$braid" bench opencl --quick --repetitions 1 --json
fi
expect 0 '^  cores +[1-9][0-9]* usable' "$braid" info
for field in '"version": "[0-9]' '"name": "cpu"' '"name": "sim"' '"name": "cuda"' '"name": "opencl"' '"driver": "[^"]' \
             '"cores": [1-9]' '"memory_bytes": [1-9]' '"memory_available_bytes": [1-9]' '"fmt": "[0-9]' \
             '"spdlog": "[0-9]' '"hwloc": "[0-9]' '"reason": "'; do
  expect 0 "$field" "$braid" info --json
done
expect 2 'nonsense' "$braid" info nonsense

# Workloads and traces.
expect 0 'taskgraph FILE' "$braid" run --help
expect 2 "there is no workload 'chess'; there are cholesky" "$braid" run chess
expect 2 "there is no backend 'abacus'" "$braid" run stencil --backend abacus
expect 2 'is not one of automatic, per_thread, single' "$braid" run stencil --placement somewhere
expect 2 'needs a file' "$braid" run taskgraph
expect 2 "'/nonexistent/x.json' cannot be written: No such file" "$braid" run stencil --trace /nonexistent/x.json
expect 0 '"verified": true' "$braid" run cholesky --backend cpu --size 256 --json
for field in seconds throughput efficiency op_seconds ops overhead_ns peak_memory_bytes RAW same_stream; do
  expect 0 "\"$field\": [0-9]" "$braid" run stencil --backend cpu --size 256 --json
done
expect 0 'verified +yes' "$braid" run pipeline --backend cpu --size 20
expect 0 'verified +yes' "$braid" run inference --backend cpu --size 20 --placement automatic
expect 0 'out.json has the trace' "$braid" run taskgraph "$graph" --backend cpu --size 5 --streams 4 --trace out.json --html out.html
expect 0 '^20 ops on [1-4] streams \(cpu, [0-9]+ workers?\) took' "$braid" explain out.json
expect 0 "stream special 0 waited 9.00 µs for 'a' on stream 0: it reads 'x' that it wrote" "$braid" explain "$small"
expect 0 '"explained": [01]' "$braid" explain out.json --json
expect 0 '' "$braid" timeline out.json -o page.html
expect 0 '<title>' cat page.html
expect 0 "replayed as it was" "$braid" replay out.json --streams 1,2..8 --placement automatic
expect 0 '"predicted_to_measured": ' "$braid" replay out.json --json
expect 2 "'x' is not a number" "$braid" replay out.json --streams 1..x
expect 0 'label="RAW image"' "$braid" graph out.json
"$braid" graph out.json | dot -Tsvg >graph.svg || { echo 'FAILED: dot'; failed=1; }
expect 2 'nosuch.json: cannot be opened' "$braid" explain nosuch.json
printf '{"braid": ' >broken.json
expect 2 'broken.json: parse error at line 1' "$braid" timeline broken.json -o page.html
printf '{"version": 1,\n"ops": [{"label": "a",\n"reads": ["z"]}]}\n' >graph.json
expect 2 "graph.json:3: ops\[0\].reads\[0\]: there is no resource 'z'" "$braid" run taskgraph graph.json
BRAID_TRACE=t.json expect 2 'use --trace' "$braid" run stencil

expect 0 'filter' "$braid" bench cuda --help
expect 0 '"name": "external/resolve/own/1"' "$braid" bench engine --quick --repetitions 1 --filter external/resolve/own/1 --json
for row in two_threads/disjoint two_threads/disjoint/separate_engines two_threads/shared_read; do
  expect 0 "\"name\": \"$row\"" "$braid" bench engine --quick --repetitions 1 --filter threads --json
done
expect 0 '"name": "ring/streams/1024"' "$braid" bench engine --quick --repetitions 1 --filter ring/streams/1024 --rivals none --json

# Grids of tasks: what is measured is not looked at, only that everything is there.
expect 0 '--one-per-row' "$braid" bench metg --help
tiny=(--width 4 --steps 20 --repetitions 1)
for field in '"pattern": "stencil_1d"' '"runtime": "braid"' '"runtime": "threads"' '"width": 4' '"metg_us": [0-9n]' \
             '"ns_per_task": [0-9]' '"curve": \[' '"braid_to_threads": [0-9n]' '"foreign_load": [0-9-]' \
             '"unavailable": \['; do
  expect 0 "$field" "$braid" bench metg --quick --pattern stencil_1d --rivals threads "${tiny[@]}" --json
done
expect 0 '^fft +braid ' "$braid" bench metg --quick --pattern fft --rivals none "${tiny[@]}" --kernel memory --one-per-row
expect 0 '2 us +braid +[0-9]+ +1 ' "$braid" bench metg --measure scaling --rivals none "${tiny[@]}" --workers 1
expect 0 '' "$braid" bench metg --quick --pattern tree --rivals sequential "${tiny[@]}" --csv --plot plots
expect 0 '^[a-z_,]*pattern,runtime,' cat plots/metg.csv
expect 0 '</svg>' cat plots/metg_tree.svg
expect 1 'braid: without the dependency of .* 1 inputs were not there' "$braid" bench metg --inject missing --runtime braid
expect 1 "injected in ([0-9]+) runs, caught in \\1\$" "$braid" bench metg --inject missing --rivals threads
expect 2 'abacus not in' "$braid" bench metg --rivals abacus
expect 2 'chess not in' "$braid" bench metg --pattern chess
expect 2 'needs a width of at least 3, not 2' "$braid" bench metg --pattern stencil_1d_periodic --width 2 --rivals none
expect 2 'are more than the [0-9]+ cores' "$braid" bench metg --workers 4000 --rivals none
expect 2 "cannot be written" "$braid" bench metg --csv /nonexistent/x.csv --rivals none
expect 0 '"runtime": "braid"' "$braid" bench tasks --tasks 100 --repetitions 1 --rivals none --json
expect 0 '"name": "random/braid"' "$braid" bench memory --quick --repetitions 1 --rivals none --json --csv --plot plots
expect 0 'random/braid' cat plots/memory.csv
exit $failed
