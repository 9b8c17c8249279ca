//! Pages in a real browser, Debian's Chromium without a screen, as wide as a screen and as narrow
//! as a telephone.

use std::path::{Path, PathBuf};

use crate::{Need, command, text};

/// What it takes.
pub const NEEDS: [Need<'static>; 4] =
    [Need::Root, Need::Program("chromium"), Need::Program("unshare"), Need::Program("timeout")];

/// The widths at which pages are looked at, in CSS pixels. Chromium makes no window narrower than
/// 500: pages stand in frames.
const WIDTHS: [u32; 2] = [1_400, 390];

/// Runs in each page and sends what is wrong with it to the page that frames it.
const WATCH: &str = "<script>
(() => {
  const wrong = [];
  addEventListener('error', e => wrong.push('error: ' + e.message));
  addEventListener('unhandledrejection', e => wrong.push('rejection: ' + e.reason));
  addEventListener('securitypolicyviolation', e => wrong.push('policy: ' + e.blockedURI));
  const overlap = (a, b) => [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
  const look = () => {
    const root = document.documentElement;
    if (root.scrollWidth > innerWidth) wrong.push(`${root.scrollWidth} pixels wide`);
    for (const figure of document.querySelectorAll('figure')) {
      const svg = figure.querySelector('.chart > svg'), name = figure.id;
      if (!svg) { wrong.push(`${name} is not drawn`); continue; }
      const box = svg.getBoundingClientRect();
      const labels = [...svg.querySelectorAll('text')].map(of => ({ text: of.firstChild?.textContent, turned: !!of.getAttribute('transform'), at: of.getBoundingClientRect() })).filter(l => l.text && l.at.width);
      for (const { text, at } of labels)
        if (at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 2 || at.bottom > box.bottom + 2) wrong.push(`${name}: the label ${text} is cut off`);
      const level = labels.filter(l => !l.turned);
      level.forEach((a, i) => level.slice(i + 1).forEach(b => {
        const [wide, high] = overlap(a.at, b.at);
        if (wide > 1 && high > 3) wrong.push(`${name}: ${a.text} is written over ${b.text}`);
      }));
      const twice = (what, all) => all.filter((text, i) => text && all.indexOf(text) < i).forEach(text => wrong.push(`${name}: ${what} ${text} is there twice`));
      for (const axis of svg.querySelectorAll('g')) twice('the tick', [...axis.querySelectorAll(':scope > .tick > text')].map(of => of.firstChild?.textContent));
      twice('the series', [...figure.querySelectorAll('.legend button')].map(of => of.textContent));
      if ([...svg.querySelectorAll('*')].some(of => [...of.attributes].some(a => /NaN|Infinity|undefined/.test(a.value)))) wrong.push(`${name}: an attribute is no number`);
    }
    parent.postMessage({ name: window.name, wrong }, '*');
  };
  addEventListener('load', () => setTimeout(look, 700));
})();
</script>";

/// The page with a script of a test in it, before the page's policy, which would allow no other.
///
/// # Panics
///
/// Where it is no page of ours.
pub fn with_script(page: &str, script: &str) -> String {
    const BEFORE_POLICY: &str = "<meta charset=\"utf-8\">";
    let (head, rest) = page.split_once(BEFORE_POLICY).expect("a page");
    format!("{head}{BEFORE_POLICY}{script}{rest}")
}

/// What is wrong with these pages at each width: wider than the window, a plot that is not drawn, a
/// label that is cut off or over another one, two ticks of an axis or two series that read the
/// same, an error of a script. Pages have the script that looks written into them. There is no
/// network.
///
/// # Panics
///
/// Where a file cannot be read or written, or a page does not answer.
pub fn problems(pages: &[PathBuf]) -> Vec<String> {
    let mut frames = String::new();
    for (number, page) in pages.iter().enumerate() {
        let html = std::fs::read_to_string(page).expect("a page can be read");
        std::fs::write(page, with_script(&html, WATCH)).expect("a page can be written");
        for width in WIDTHS {
            let at = page.display();
            frames += &format!(
                "<iframe name=\"{number} at {width}\" src=\"file://{at}\" width={width} height=900></iframe>\n"
            );
        }
    }
    let folder = pages[0].parent().expect("a folder");
    let framing = folder.join("all-frames.html");
    let script = "<script>addEventListener('message', ({ data }) => {
        const said = document.createElement('pre');
        said.textContent = ['said', data.name, ...data.wrong].join('\\t');
        document.getElementById('said').append(said);
    });</script>";
    std::fs::write(&framing, format!("<!DOCTYPE html><div id=said></div>{script}{frames}")).expect("a page");
    let dom = dump(folder, &framing);
    let mut found = Vec::new();
    let mut answered = 0;
    for said in dom.split("<pre>said\t").skip(1).filter_map(|rest| rest.split("</pre>").next()) {
        let mut words = said.split('\t');
        let (number, width) = words.next().and_then(|name| name.split_once(" at ")).expect("the name of a frame");
        let page = &pages[number.parse::<usize>().expect("a number")];
        found.extend(words.map(|wrong| format!("{} at {width}: {wrong}", page.display())));
        answered += 1;
    }
    assert_eq!(answered, pages.len() * WIDTHS.len(), "pages that answered; {found:?}");
    found
}

/// The page as it is once its scripts have run.
fn dump(folder: &Path, page: &Path) -> String {
    let out = command("timeout")
        .args(["120", "unshare", "--net", "--", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--no-first-run", "--disable-background-networking", "--window-size=1500,1000", "--dump-dom"])
        .args(["--allow-file-access-from-files", "--virtual-time-budget=6000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium can be run");
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout)
}
