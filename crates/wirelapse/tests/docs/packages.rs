//! What `make release` makes, of the program that cargo has built for the tests: the image and the
//! RPM package, read and installed by the programs of others. And what it refuses to make.

use std::fs;
use std::path::{Path, PathBuf};

use tier::{Need, needs};

use crate::programs::{at, done};

/// The program without its symbols, where packaging looks for the one that it has built.
fn built(folder: &Path) -> PathBuf {
    let program = folder.join("package/static/wirelapse");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    done(tier::command("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_wirelapse")));
    program
}

#[test]
fn a_release_is_refused_while_something_stands_for_what_it_has_to_have() {
    let folder = tempfile::tempdir().unwrap();
    let mut release = tier::command(at("packaging/release"));
    let refused =
        release.env_remove("TRIAL").env("KEY", "/none").env("CARGO_TARGET_DIR", folder.path()).output().unwrap();
    let said = tier::text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("KEY does not name the secret key"), "{said}");
    let placeholders = tier::command(at("packaging/placeholders")).output().unwrap();
    for line in tier::text(&placeholders.stdout).lines() {
        assert!(said.contains(&format!("a placeholder: {line}")), "{line}: {said}");
    }
    assert!(!folder.path().join("package").exists(), "it built something: {said}");
}

#[test]
fn the_image_is_read_by_others_and_has_the_program_alone() {
    needs!(Need::Program("umoci"));
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path());
    let image = |name: &str, words: &[String]| {
        let to = folder.path().join(name);
        done(tier::command(at("packaging/oci")).arg(&to).args(words));
        to
    };
    let amd64 = format!("amd64={}", program.display());
    let first = image("first.tar", std::slice::from_ref(&amd64));
    let again = image("again.tar", std::slice::from_ref(&amd64));
    assert!(fs::read(&first).unwrap() == fs::read(&again).unwrap(), "two images are not the same bytes");

    let layout = folder.path().join("layout");
    fs::create_dir(&layout).unwrap();
    done(tier::command("tar").arg("-xf").arg(&first).arg("-C").arg(&layout));
    let tags = done(tier::command("umoci").args(["list", "--layout"]).arg(&layout));
    let tag = tags.lines().next().expect("a tag");
    let bundle = folder.path().join("bundle");
    let named = format!("{}:{tag}", layout.display());
    done(tier::command("umoci").args(["unpack", "--rootless", "--image", &named]).arg(&bundle));
    let within = done(tier::command("find").arg(bundle.join("rootfs")).args(["-type", "f", "-printf", "%P %m\n"]));
    assert_eq!(within, "usr/bin/wirelapse 755\n");
    assert!(fs::read(bundle.join("rootfs/usr/bin/wirelapse")).unwrap() == fs::read(&program).unwrap());
    let runs: serde_json::Value = serde_json::from_slice(&fs::read(bundle.join("config.json")).unwrap()).unwrap();
    assert_eq!(runs["process"]["args"], serde_json::json!(["/usr/bin/wirelapse", "doctor"]));

    // Of two architectures, each has its manifest in one index.
    let both = image("both.tar", &[amd64, format!("arm64={}", program.display())]);
    let text = done(tier::command("tar").arg("-xOf").arg(&both).arg("index.json"));
    let top: serde_json::Value = serde_json::from_str(&text).unwrap();
    let digest = top["manifests"][0]["digest"].as_str().unwrap().replace(':', "/");
    let text = done(tier::command("tar").arg("-xOf").arg(&both).arg(format!("blobs/{digest}")));
    let index: serde_json::Value = serde_json::from_str(&text).unwrap();
    let architectures: Vec<_> =
        index["manifests"].as_array().unwrap().iter().map(|m| &m["platform"]["architecture"]).collect();
    assert_eq!(architectures, ["amd64", "arm64"]);
}

/// Installs and removes in a copy of this machine's files that only this script sees, and prints
/// what is different after each: the layer above the files.
const IN_A_COPY: &str = r#"
set -eu
mount -t tmpfs none "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay none -o "lowerdir=/,upperdir=$2/upper,workdir=$2/work" "$2/root"
different() { (cd "$2/upper" && find . \( -path ./var/lib/rpm -o -path ./var/lib/sss -o -path ./var/log -o -path ./var/cache -o -path ./root -o -path ./tmp -o -path ./dev \) -prune -o \( -type f -o -type c \) -print | sort); }
rpm --root "$2/root" --nodeps -i "$1"
chroot "$2/root" getent passwd wirelapse
chroot "$2/root" wirelapse --version | head -1
different "$@"
echo removed
rpm --root "$2/root" -e wirelapse
different "$@"
"#;

#[test]
fn the_rpm_is_installed_and_leaves_what_rpm_leaves() {
    needs!(Need::Root, Need::Program("rpmbuild"), Need::Program("rpm"));
    let folder = tempfile::tempdir().unwrap();
    built(folder.path());
    // The features of a test's program are those of the whole workspace, so that none fits.
    let version = done(&mut tier::command(at("packaging/version")));
    let version = version.split(' ').next().unwrap();
    let sbom = format!("package/wirelapse-{version}-linux-{}.sbom.json", std::env::consts::ARCH);
    fs::write(folder.path().join(sbom), "{}").unwrap();
    done(tier::command(at("packaging/rpm")).env("CARGO_TARGET_DIR", folder.path()).env("BUILT", "yes"));
    let package = fs::read_dir(folder.path().join("package")).unwrap().map(|entry| entry.unwrap().path());
    let package = package.into_iter().find(|path| path.extension().is_some_and(|is| is == "rpm")).expect("a package");
    done(tier::command("rpm").args(["-K", "--nosignature"]).arg(&package));
    // The program is linked with everything, so nothing of a distribution is asked for but a shell.
    for needed in done(tier::command("rpm").args(["-qp", "--requires"]).arg(&package)).lines() {
        assert!(needed == "/bin/sh" || needed.starts_with("rpmlib("), "{needed}");
    }

    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    let mut script = tier::command("unshare");
    script.args(["--mount", "--propagation", "private", "sh", "-c", IN_A_COPY, "sh"]).arg(&package).arg(&copy);
    let said = done(&mut script);
    let (installed, removed) = said.split_once("removed\n").unwrap();
    assert!(installed.starts_with("wirelapse:"), "no user of the agent: {said}");
    for file in [
        "wirelapse 0.",
        "./usr/bin/wirelapse\n",
        "./usr/share/man/man1/wirelapse-trace.1.gz\n",
        "./usr/lib64/wireshark/extcap/wirelapse\n",
        "./usr/lib64/wireshark/plugins/wirelapse.lua\n",
        "./usr/share/wireshark/profiles/Wirelapse/colorfilters\n",
        "./etc/wirelapse/agent.toml\n",
    ] {
        assert!(installed.contains(file), "{file}: {said}");
    }
    // The user stays, as RPM's packages leave theirs.
    let left: Vec<_> = removed.lines().filter(|file| !file.starts_with("./etc/")).collect();
    assert!(left.is_empty() && !removed.contains("wirelapse"), "{removed}");
}

#[test]
fn the_extension_of_systemd_has_the_program_below_usr_alone() {
    needs!(Need::Program("mksquashfs"), Need::Program("unsquashfs"));
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path());
    let extension = || {
        done(tier::command(at("packaging/sysext")).env("CARGO_TARGET_DIR", folder.path()).env("BUILT", "yes"));
        let made = fs::read_dir(folder.path().join("package")).unwrap().map(|entry| entry.unwrap().path());
        made.into_iter().find(|path| path.extension().is_some_and(|is| is == "raw")).expect("an extension")
    };
    let file = extension();
    let first = fs::read(&file).unwrap();
    assert!(first == fs::read(extension()).unwrap(), "two extensions are not the same bytes");
    let root = folder.path().join("root");
    done(tier::command("unsquashfs").args(["-quiet", "-no-progress", "-dest"]).arg(&root).arg(&file));
    let top: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(top, ["usr"]);
    assert!(fs::read(root.join("usr/bin/wirelapse")).unwrap() == fs::read(program).unwrap());
    // systemd-sysext takes one whose release names every distribution and this architecture.
    let release = fs::read_to_string(root.join("usr/lib/extension-release.d/extension-release.wirelapse")).unwrap();
    assert!(release.starts_with("ID=_any\nARCHITECTURE="), "{release}");
}

#[test]
fn the_module_of_selinux_compiles_and_has_the_capabilities_of_the_unit() {
    needs!(Need::Program("checkmodule"), Need::Program("semodule_package"));
    let folder = tempfile::tempdir().unwrap();
    let (module, source) = (folder.path().join("wirelapse.mod"), at("packaging/selinux/wirelapse.te"));
    done(tier::command("checkmodule").args(["-M", "-m", "-o"]).arg(&module).arg(&source));
    let package = folder.path().join("wirelapse.pp");
    let mut pack = tier::command("semodule_package");
    done(pack.arg("-o").arg(&package).arg("-m").arg(&module).arg("-f").arg(at("packaging/selinux/wirelapse.fc")));
    assert!(fs::metadata(&package).unwrap().len() > 1000);

    let unit = fs::read_to_string(at("packaging/systemd/wirelapse-agent.service")).unwrap();
    let given = unit.lines().find_map(|line| line.strip_prefix("AmbientCapabilities=")).unwrap();
    let policy = fs::read_to_string(source).unwrap();
    let mut allowed: Vec<String> = policy
        .lines()
        .filter_map(|line| line.strip_prefix("allow wirelapse_t self:capability"))
        .flat_map(|rest| rest.trim_start_matches('2').trim_matches([' ', '{', '}', ';']).split_whitespace())
        .map(|name| format!("CAP_{}", name.to_uppercase()))
        .collect();
    let mut given: Vec<String> = given.split(' ').map(str::to_owned).collect();
    allowed.sort();
    given.sort();
    assert_eq!(allowed, given);
}

#[test]
fn the_role_of_ansible_is_one() {
    let Some(python) = super::done::python("ansible") else { return };
    let mut check = tier::command(&python);
    check.current_dir(at("packaging/ansible")).args([
        "-m",
        "ansible",
        "playbook",
        "--syntax-check",
        "-i",
        "localhost,",
    ]);
    let said = done(check.arg("agent.yml").env("LC_ALL", "C.UTF-8").env("ANSIBLE_LOCAL_TEMP", "/tmp"));
    assert!(said.contains("playbook: agent.yml"), "{said}");
}
