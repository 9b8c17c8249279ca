//! The header is that of the code, a C program that includes it works, and what is no argument is
//! refused.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use tier::{Need, needs};
use wirelapse_timestamping::matcher::{wlts_matcher_counts, wlts_matcher_new, wlts_matcher_sent};
use wirelapse_timestamping::queue::{wlts_queue_free, wlts_queue_new, wlts_queue_read};
use wirelapse_timestamping::request::{wlts_enable, wlts_request, wlts_supported};
use wirelapse_timestamping::result::{wlts_error_number, wlts_error_text, wlts_result};

const HEADER: &str = "include/wirelapse_timestamping.h";

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_that_of_the_code() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    cbindgen::generate_with_config(here(), config).unwrap().write(&mut header);
    let header = String::from_utf8(header).unwrap();
    if std::env::var_os("WIRELAPSE_WRITE_SNAPSHOTS").is_some() {
        std::fs::write(here().join(HEADER), &header).unwrap();
    }
    let kept = std::fs::read_to_string(here().join(HEADER)).unwrap();
    assert_eq!(kept, header, "WIRELAPSE_WRITE_SNAPSHOTS=1 writes {HEADER} again");
}

/// Where cargo has put the libraries that C links with.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn compiled(words: &[&str], to: &Path) {
    let mut cc = tier::command("cc");
    cc.current_dir(here()).args(["-Wall", "-Wextra", "-Werror", "-Iinclude", "-o"]).arg(to).args(words);
    let done = cc.output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", tier::text(&done.stderr));
}

#[test]
fn a_program_in_c_times_its_requests() {
    needs!(Need::Program("cc"));
    let folder = tempfile::tempdir().unwrap();
    let (program, libraries) = (folder.path().join("requests"), libraries());
    let path = format!("-L{}", libraries.display());
    for linked in [&["-lwirelapse_timestamping"][..], &["-l:libwirelapse_timestamping.a", "-lm"]] {
        compiled(&[&["-std=gnu11", "-pthread", "examples/requests.c", &path], linked].concat(), &program);
        let done = tier::command(&program).env("LD_LIBRARY_PATH", &libraries).output().unwrap();
        let (said, errors) = (tier::text(&done.stdout), tier::text(&done.stderr));
        assert!(done.status.success(), "{said}{errors}");
        assert!(said.ends_with("5 sends, 5 with every stamp\n"), "{said}{errors}");
        assert_eq!(said.matches("ack after").count(), 5, "{said}");
    }
}

#[test]
fn the_header_is_one_for_c_plus_plus_too() {
    needs!(Need::Program("cc"));
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("includes.cc");
    std::fs::write(&source, "#include \"wirelapse_timestamping.h\"\nint main() { return 0; }\n").unwrap();
    compiled(&["-std=c++17", "-fsyntax-only", source.to_str().unwrap()], &folder.path().join("none"));
}

#[test]
fn what_is_no_argument_is_refused() {
    // SAFETY: the text ends in NUL, and is copied before anything else fails.
    let text = || unsafe { CStr::from_ptr(wlts_error_text()) }.to_str().unwrap().to_owned();
    let mut enabled = null_mut();
    let request = wlts_request { stages: 0xff, ..wlts_request::default() };
    // SAFETY: null pointers are what is tried; the others are to what lives here.
    unsafe {
        assert_eq!(wlts_enable(0, null(), &raw mut enabled), wlts_result::WLTS_ARGUMENT);
        assert_eq!(wlts_enable(0, &raw const request, &raw mut enabled), wlts_result::WLTS_ARGUMENT);
        assert_eq!(text(), "there is no such stage");
        let request = wlts_request::default();
        assert_eq!(wlts_enable(-1, &raw const request, &raw mut enabled), wlts_result::WLTS_ARGUMENT);
        // No descriptor that high is open.
        assert_eq!(wlts_enable(i32::MAX, &raw const request, &raw mut enabled), wlts_result::WLTS_SYSTEM);
        assert_eq!(wlts_error_number(), 9, "EBADF: {}", text());
        assert!(enabled.is_null());
        assert_eq!(wlts_supported(null_mut()), wlts_result::WLTS_ARGUMENT);

        let queue = wlts_queue_new(0, 0, 0);
        let mut count = 0;
        assert_eq!(wlts_queue_read(queue, 0, None, null_mut(), &raw mut count), wlts_result::WLTS_ARGUMENT);
        wlts_queue_free(queue);
        wlts_queue_free(null_mut());

        assert!(wlts_matcher_new(null(), 8).is_null());
        assert!(!wlts_matcher_sent(null_mut(), 1, 1, 1));
        assert_eq!(wlts_matcher_counts(null()).sent, 0);
    }
}
