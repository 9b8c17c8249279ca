# Plain `cargo build` works by itself; this is for what cargo cannot do. `make help` lists it.

# Where rustup puts cargo, for shells without it in their PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help setup demo test check bench fuzz

# The list of commands
help:
	@echo 'make demo    a real server and client over a path of known delay, traced   (root or sudo)'
	@echo 'make test    everything: checks, tests, tests in other kernels             (root or sudo)'
	@echo 'make check   formatting, lints, documentation, licences, purity'
	@echo 'make bench   what tracing costs, measured on this machine                  (root or sudo)'
	@echo 'make fuzz    every parser of foreign bytes, three minutes each (needs nightly Rust and cargo-fuzz)'
	@echo 'make setup   install what the above need from Debian; each does so itself'

setup:
	@setup/install build demo test vm bench

demo:
	@setup/install build demo
	@demo/run

test:
	@setup/install build test vm
	@setup/python || echo 'setup: going on without them'
	@tests/run

check:
	@setup/install build
	@check/run

bench:
	@setup/install build bench
	@bench/run

# New inputs stay in fuzz/corpus, which the tests replay.
fuzz:
	@setup/install build
	@for target in capture frame text control attribute; do \
	    nice cargo +nightly fuzz run -O $$target -- -max_total_time=180 -max_len=4096 -rss_limit_mb=800 || exit 1; \
	done
