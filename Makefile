# Plain `cargo build` works by itself; this is for what cargo cannot do. `make help` lists it.

# Where rustup puts cargo, for shells without it in their PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help setup demo test check bench fuzz soak aa truth cost deb dist rpm wheel image release site pictures

# The list of commands
help:
	@echo 'make demo    a real server and client over a path of known delay, traced   (root or sudo)'
	@echo 'make test    everything: checks, tests, tests in other kernels             (root or sudo)'
	@echo 'make check   formatting, lints, documentation, licences, purity'
	@echo 'make bench   what tracing costs, measured on this machine                  (root or sudo)'
	@echo 'make fuzz    every parser of foreign bytes, three minutes each'
	@echo 'make soak    an hour of load, abuse and labs, and a day of the agent: what is held and left behind is level (root or sudo)'
	@echo 'make aa      forty studies of each kind in which there is nothing to find: how many claim a difference (root or sudo, an hour)'
	@echo 'make cost    what tracing costs in instructions, in a guest that counts them: the table of docs/overhead.md'
	@echo 'make truth   scenarios drawn from SEEDS (1..200): how often analyze names what really limited them (root)'
	@echo 'make site    README and documentation as a site with search, in target/site'
	@echo 'make pictures  those of the README, from the run in docs/pictures'
	@echo 'make deb     Debian packages of the release build, wirelapse and wirelapse-query, in target/package'
	@echo 'make dist    a tarball that needs only Linux, with its SBOM and sha256, likewise'
	@echo 'make rpm     an RPM package for Fedora and RHEL, likewise'
	@echo 'make wheel   the Python package with the command in it, likewise'
	@echo 'make image   an image for Podman, Docker and Kubernetes, likewise'
	@echo 'make release all of these, with sums and a signature (docs/releasing.md; TRIAL=yes to try)'
	@echo 'make setup   install what the above need from Debian; each does so itself'

setup:
	@setup/install build demo test vm bench

demo:
	@setup/install build demo
	@demo/run

test:
	@setup/install build test vm
	@tests/run

check:
	@setup/install build
	@check/run

bench:
	@setup/install build bench
	@bench/run

site:
	@setup/install build
	@docs/site/build

pictures:
	@setup/install build test
	@cargo build --release
	@docs/pictures/make target/release/wirelapse

deb:
	@setup/install build package
	@packaging/deb

dist:
	@setup/install build
	@packaging/dist

rpm wheel:
	@setup/install build package
	@packaging/$@

image:
	@setup/install build package
	@packaging/build static
	@packaging/oci target/package/wirelapse-oci.tar $$(dpkg --print-architecture)=target/package/static/wirelapse

release:
	@setup/install build package
	@packaging/release

# New inputs stay in fuzz/corpus, which the tests replay.
fuzz:
	@setup/install build
	@fuzz/run

# SECONDS_OF_SOAK, SECONDS_OF_DAY: how long.
SECONDS_OF_SOAK ?= 3600
SECONDS_OF_DAY ?= 600
soak:
	@setup/install build test
	@WIRELAPSE_SOAK=$(SECONDS_OF_SOAK) cargo test --release -p wirelapse --test long -- --nocapture soak
	@WIRELAPSE_DAY=$(SECONDS_OF_DAY) cargo test --release -p wirelapse --test long -- --nocapture agent_day

# KINDS_OF_AA and STUDIES_OF_AA: which of them, and how many of each.
KINDS_OF_AA ?= rr stream levels until 1 5 50
STUDIES_OF_AA ?= 40
aa:
	@setup/install build
	@cargo build --release -p wirelapse-study --example aa
	@for kind in $(KINDS_OF_AA); do target/release/examples/aa $$kind $(STUDIES_OF_AA) || exit 1; done

cost:
	@setup/install build vm
	@check/build --quiet
	@vm/cost --write bookworm

# SEEDS: which scenarios; JOBS_OF_TRUTH: how many at the same time.
SEEDS ?= 1..200
JOBS_OF_TRUTH ?= 6
truth:
	@setup/install build test
	@RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/check/unit cargo build --quiet --locked --workspace --bin seeds
	@target/debug/seeds $(SEEDS) --jobs $(JOBS_OF_TRUTH) --write
