//! How a function ends, and why it failed.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

use timestamping::Error;

/// How a function ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum wlts_result {
    /// It did what was asked.
    WLTS_OK = 0,
    /// The kernel is too old: the text names the option and the version that brought it.
    WLTS_UNSUPPORTED = 1,
    /// A TCP socket has to be connected before its bytes can be counted.
    WLTS_NOT_CONNECTED = 2,
    /// A socket of this type cannot do this.
    WLTS_WRONG_SOCKET = 3,
    /// The options contradict each other.
    WLTS_CONTRADICTION = 4,
    /// The process may not do this.
    WLTS_NOT_PERMITTED = 5,
    /// A message of the kernel cannot be read.
    WLTS_UNREADABLE = 6,
    /// A system call failed: wlts_error_number() has its error.
    WLTS_SYSTEM = 7,
    /// An argument is null, not a descriptor, or not what it should be.
    WLTS_ARGUMENT = 8,
}

use wlts_result::{
    WLTS_ARGUMENT, WLTS_CONTRADICTION, WLTS_NOT_CONNECTED, WLTS_NOT_PERMITTED, WLTS_OK, WLTS_SYSTEM, WLTS_UNREADABLE,
    WLTS_UNSUPPORTED, WLTS_WRONG_SOCKET,
};

/// Why a function failed.
pub(crate) enum Failure {
    Argument(&'static str),
    Library(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<timestamping::ParseError> for Failure {
    fn from(error: timestamping::ParseError) -> Self {
        Self::Library(error.into())
    }
}

thread_local! {
    static LAST: RefCell<(CString, c_int)> = RefCell::default();
}

/// Text for C: what a NUL would end too early is not in any of ours.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Runs `body` and keeps the reason of its failure.
pub(crate) fn run(body: impl FnOnce() -> Result<(), Failure>) -> wlts_result {
    let failure = match body() {
        Ok(()) => return WLTS_OK,
        Err(failure) => failure,
    };
    let (result, text, number) = match failure {
        Failure::Argument(what) => (WLTS_ARGUMENT, what.to_owned(), 0),
        Failure::Library(error) => {
            let result = match &error {
                Error::Unsupported { .. } => WLTS_UNSUPPORTED,
                Error::NotConnected => WLTS_NOT_CONNECTED,
                Error::WrongSocket { .. } => WLTS_WRONG_SOCKET,
                Error::Contradiction(_) => WLTS_CONTRADICTION,
                Error::NotPermitted { .. } => WLTS_NOT_PERMITTED,
                Error::Parse(_) => WLTS_UNREADABLE,
                Error::NoInterface(_) | Error::NotByInterface { .. } | Error::System { .. } => WLTS_SYSTEM,
                // The enum may grow.
                _ => WLTS_SYSTEM,
            };
            (result, error.to_string(), error.raw_os_error().unwrap_or(0))
        }
    };
    LAST.with_borrow_mut(|last| *last = (c_text(&text), number));
    result
}

/// Why the last function of this thread that failed did so: a sentence, valid until another one
/// fails.
#[unsafe(no_mangle)]
pub extern "C" fn wlts_error_text() -> *const c_char {
    LAST.with_borrow(|(text, _)| text.as_ptr())
}

/// The kernel's error number (errno) of that failure, or 0 where no system call failed.
#[unsafe(no_mangle)]
pub extern "C" fn wlts_error_number() -> c_int {
    LAST.with_borrow(|(_, number)| *number)
}
