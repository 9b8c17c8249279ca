//! Labs and testbeds of the running kernel.

mod hosts;
mod testbed;
