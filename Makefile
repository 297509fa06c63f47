# Everything a developer does; each target sets up what it needs on a fresh machine.
PYTHON ?= python3
BIN := .venv/bin
NEWEST := 3.13
SERVICE_PACKAGES := postgresql chromium nginx-light

.PHONY: setup demo test torture check check-web serve test-realdata sanitize results clean system

setup: .venv/.ready

.venv/.ready: pyproject.toml setup.py constraints.txt $(wildcard src/igcf/online/backend/native/*)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,service,scale]' --group dev
	touch $@

demo: setup
	$(BIN)/igcf demo --out demo

serve: setup
	$(BIN)/igcf serve --demo --open

check: setup check-web
	$(BIN)/ruff format --check src tests tools
	$(BIN)/ruff check src tests tools
	$(BIN)/mypy --python-version 3.11
	$(BIN)/mypy --python-version $(NEWEST)
	$(BIN)/lint-imports

# The page needs no build; its scripts are checked by eslint and by TypeScript, which read the types in JSDoc comments.
check-web: node_modules/.ready
	node_modules/.bin/eslint src/igcf/service/web
	node_modules/.bin/tsc --project tsconfig.json

node_modules/.ready: package.json package-lock.json
	command -v npm >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nodejs npm; }
	npm ci --silent --no-audit --no-fund
	touch $@

# Tests talk to a real PostgreSQL, a real browser and a real proxy; Debian's packages are installed where missing.
system:
	@missing=; command -v chromium >/dev/null || missing=1; \
	PATH=$$PATH:/usr/sbin command -v nginx >/dev/null || missing=1; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing=1; \
	if [ -n "$$missing" ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(SERVICE_PACKAGES); fi

# Coverage has a floor (pyproject.toml); processes that tests start are counted too.
test: setup system
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=term

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

# Every published table at this commit (hours; started again, it goes on where it stopped), then the page of all tables.
results: setup
	$(BIN)/igcf reproduce --all --out results
	cp results/tables.md docs/tables.md

clean:
	rm -rf .venv node_modules .coverage demo torture build dist
