# Everything a developer does; each target sets up what it needs on a fresh machine.
PYTHON ?= python3
BIN := .venv/bin
NEWEST := 3.15
SERVICE_PACKAGES := postgresql chromium nginx-light

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PACKAGE := pyproject.toml setup.py constraints.txt $(wildcard src/igcf/online/backend/native/*)

.PHONY: setup demo test oldest quick coverage torture check format check-web serve docs generated results dist smoke smoke-arm test-realdata sanitize clean system

setup: .venv/.ready

.venv/.ready: $(PACKAGE)
	@echo "Installing into .venv; this takes a minute or two and says nothing meanwhile"
	$(PYTHON) -m venv .venv
	$(INSTALL) --upgrade pip
	$(INSTALL) -e '.[train,service,postgresql,scale,mcp]' --group dev
	touch .venv/.demo .venv/.serve $@

# The demo and the page need a small part of that: no torch, no cluster, no tools.
.venv/.demo: $(PACKAGE)
	@echo "Installing into .venv; this takes a minute or two and says nothing meanwhile"
	$(PYTHON) -m venv .venv
	$(INSTALL) -e '.[evaluate]'
	touch $@

.venv/.serve: $(PACKAGE)
	@echo "Installing into .venv; this takes a minute or two and says nothing meanwhile"
	$(PYTHON) -m venv .venv
	$(INSTALL) -e '.[service]'
	touch $@

demo: .venv/.demo
	$(BIN)/igcf demo --out demo

serve: .venv/.serve
	$(BIN)/igcf serve --demo --open

# The site, without a network: notebooks are run, a warning is an error, links between pages are checked.
docs: .venv/.docs
	$(BIN)/sphinx-build -q -W --keep-going -b html -c docs . build/site
	$(BIN)/python -m tools.check_links build/site
	@echo "wrote build/site/index.html"

.venv/.docs: .venv/.serve
	@echo "Installing into .venv; this takes a minute or two and says nothing meanwhile"
	$(INSTALL) --upgrade pip
	$(INSTALL) -e '.[evaluate,service]' --group docs
	touch $@

# Everything that is written by a program and kept in the repository; tests compare it with what it was made from.
generated: setup
	$(BIN)/python -m tools.cli_document > docs/reference/cli.md
	$(BIN)/python -m tools.leaderboard_page
	$(BIN)/python -m tools.http_document > docs/http.md
	$(BIN)/python -m tools.api_types > clients/js/src/api.d.ts
	$(BIN)/python -m tools.api_types --page > tools/page_api.d.ts

check: setup check-web
	$(BIN)/ruff format --check src tests tools
	$(BIN)/ruff check src tests tools
	$(BIN)/mypy --python-version 3.11
	$(BIN)/mypy --python-version $(NEWEST)
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format src tests tools
	$(BIN)/ruff check --fix-only src tests tools

# The page needs no build; its scripts are checked by eslint and by TypeScript, which read the types in JSDoc comments.
check-web: node_modules/.ready
	node_modules/.bin/eslint src/igcf/service/web clients/js/src examples/shop/site
	node_modules/.bin/tsc --project tsconfig.json

node_modules/.ready: package.json package-lock.json
	command -v npm >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nodejs npm; }
	npm ci --silent --no-audit --no-fund
	touch $@

# Tests talk to a real PostgreSQL, a real browser and a real proxy; Debian's packages are installed where missing. Of
# Prometheus only the tool that checks its configuration is taken out of the package.
system:
	@missing=; command -v chromium >/dev/null || missing=1; \
	PATH=$$PATH:/usr/sbin command -v nginx >/dev/null || missing=1; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing=1; \
	if [ -n "$$missing" ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(SERVICE_PACKAGES); fi
	@command -v promtool >/dev/null || { folder=$$(mktemp -d) && cd $$folder && apt-get update -qq && apt-get download -qq prometheus \
	&& dpkg-deb -x prometheus_*.deb . && install usr/bin/promtool /usr/local/bin/ && rm -r $$folder; }

PYTEST := $(BIN)/pytest -q -n 3 --dist loadfile --no-loadscope-reorder --durations=20
test: setup system
	$(PYTEST)

# The oldest dependencies that are promised, on Python 3.11: library and service. Warnings of old packages do not count.
OLDEST := tests/online/test_session.py tests/model tests/test_config.py tests/service/store/test_log.py \
	tests/service/http/test_guard.py tests/service/http/test_security.py tests/service/http/test_api.py
oldest: .venv-oldest/.ready system
	.venv-oldest/bin/python -m pytest -q -W ignore -p no:cacheprovider $(OLDEST)

.venv-oldest/.ready: $(PACKAGE) constraints-min.txt
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-min.txt \
		-e '.[evaluate,service,postgresql]' pytest hypothesis
	touch $@

# What needs no browser, cluster, PostgreSQL or torch and no minutes: for every few edits.
OUTSIDE := web clients tools lab/baselines lab/bench lab/evaluate/test_engines.py training/test_cold_users.py \
	training/test_objective.py training/test_operators.py training/test_population.py training/test_pretrain.py \
	training/test_sampling.py training/test_train.py \
	test_notebooks.py test_readme.py $(patsubst tests/%,%,$(wildcard tests/service/test_*.py))
quick: setup
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile -m 'not slow and not realdata' -k 'not postgresql and not torch' --durations=10 \
		$(addprefix --ignore=tests/,$(OUTSIDE)) tests

# All tests, counting which lines of the package are run, in processes that tests start too; there is a floor
# (pyproject.toml). It takes about half as long again.
coverage: setup system
	$(PYTEST) --cov --cov-report=term

# Kills, faults and interleavings for so many minutes; further runs go on where the last one ended.
MINUTES ?= 30
torture: setup system
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tools.torture --minutes $(MINUTES) --out torture

test-realdata: setup
	$(BIN)/pytest -q -m realdata

# The native loops and the tests of the online phase with checks of every memory access and of undefined behaviour.
# One version of each function: the loader picks among several before the checks are ready.
# Nothing is captured (-s), so that a finding is printed before the process ends.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -DIGCF_ONE_VERSION
sanitize: setup
	rm -rf build/sanitize
	CFLAGS="$(SANITIZE)" LDFLAGS="-fsanitize=address,undefined" \
		$(BIN)/python setup.py -q build --build-base build/sanitize --build-lib build/sanitize/lib
	test -e build/sanitize/lib/igcf/online/backend/_native.abi3.so
	PYTHONPATH=build/sanitize/lib PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
		LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libstdc++.so)" \
		$(BIN)/python -m pytest -q -s -p no:cacheprovider tests/online

# Source archive, a wheel for this platform (abi3: Python 3.11 and every later one) and a pure one for all others.
# On Linux auditwheel says which systems a wheel runs on, and zig compiles it for ARM and for musl (Alpine) too; how the
# Python at hand links (LDSHARED) would leave a path of this machine in the wheel.
# `make smoke`: the wheels that fit this machine prove themselves in empty environments.
dist: .venv/.release
	rm -rf dist build/lib* build/bdist* build/temp*
	if [ "$$(uname -s)" = Linux ]; then export LDSHARED="cc -shared"; fi; $(BIN)/python -m build
	rm -rf build/lib* build/bdist* build/temp*
	IGCF_PURE=1 $(BIN)/python -m build --wheel
	if ls dist/*-linux_*.whl >/dev/null 2>&1; then PATH="$(CURDIR)/$(BIN):$$PATH" \
		$(BIN)/auditwheel repair -w dist dist/*-linux_*.whl && rm dist/*-linux_*.whl; fi
	if [ "$$(uname -s)" = Linux ]; then $(BIN)/python -m tools.cross_wheels dist; fi
	$(BIN)/twine check --strict dist/*

.venv/.release: pyproject.toml constraints.txt
	@echo "Installing into .venv; this takes a minute or two and says nothing meanwhile"
	$(PYTHON) -m venv .venv
	$(INSTALL) --upgrade pip
	$(INSTALL) --group release
	touch $@

smoke: dist
	$(BIN)/python -m tools.smoke dist

# The wheel for Linux on ARM under emulation (Debian's qemu-user-static), with the tests of its native loops.
smoke-arm: dist
	$(BIN)/python -m tools.arm_wheel dist

# Every published table at this commit (started again, it resumes where it stopped), then the pages that show them.
# An experiment that was not reached keeps its table and the commit that made it.
results: setup
	mkdir -p results && cp -n docs/results-tables.md results/tables.md
	$(BIN)/python -m tools.published --out results
	cp results/tables.md docs/results-tables.md
	$(BIN)/python -m tools.results_page

clean:
	rm -rf .venv .venv-oldest node_modules clients/js/node_modules .coverage demo torture build dist
