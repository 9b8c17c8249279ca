//! Pages in a real browser: Debian's Chromium without a screen, in a network namespace without
//! interfaces.

use std::path::Path;
use std::process::Command;

use paper::document::{Block, Document, Row, Section, Table};
use paper::html;
use paper::plot::{Axis, Boxed, Cell, Hue, Interval, Layer, Plot, Span, Unit};
use tier::Need;
use tier::browser::with_script;

const HOSTILE: &str =
    "</script><script>document.title='taken'</script><img src=http://192.0.2.1/x onerror=document.title='taken'>\"'";

/// Counts what goes wrong from before the page's own scripts on, and what was asked for, and writes
/// it where the test reads it.
const WATCH: &str = "<script>
const wrong = [];
addEventListener('error', e => wrong.push('error: ' + e.message));
addEventListener('unhandledrejection', e => wrong.push('rejection: ' + e.reason));
addEventListener('securitypolicyviolation', e => wrong.push('policy: ' + e.blockedURI));
for (const level of ['error', 'warn']) console[level] = (...words) => wrong.push(level + ': ' + words.join(' '));
const look = () => {
  const root = document.documentElement.dataset;
  root.wrong = wrong.join(' | ');
  root.requests = performance.getEntriesByType('resource').length;
  root.drawn = document.querySelectorAll('figure .chart > svg').length;
  root.marks = [...document.querySelectorAll('figure .chart > svg')].map(s => s.querySelectorAll('path, rect, circle, line').length).join(',');
  root.broken = [...document.querySelectorAll('svg *')].filter(n => [...n.attributes].some(a => /NaN|Infinity|undefined/.test(a.value))).length;
  root.wide = document.documentElement.scrollWidth > innerWidth ? 'yes' : 'no';
};
// The time of a page that is still read goes on: its scripts may come later than any moment of it.
addEventListener('load', () => setTimeout(look, 1500));
</script>";

fn label() -> String {
    HOSTILE.to_owned()
}

/// A document with every kind of layer and scale, in which every word is hostile.
fn everything() -> Document {
    let log = || Axis::log(HOSTILE, Unit::Time);
    let names = |n: usize| Axis::names("", (0..n).map(|i| format!("{i} {HOSTILE}")));
    let share = || Axis::linear(HOSTILE, Unit::Share).reaching(0.0).reaching(1.0);
    let rising = |hue| Layer::Line {
        name: format!("line {hue}"),
        hue: Hue(hue),
        points: (1..200).map(|i| [f64::from(i * i) * 1e3, f64::from(i) / 200.0]).collect(),
        step: hue > 0,
        dashed: hue > 0,
    };
    let interval = |at: f64| Interval { at, low: 1e3, value: 2e3, high: 4e3, label: label() };
    let boxed = vec![Boxed { at: 0.0, figures: [1e3, 2e3, 3e3, 5e3, 9e3], label: label() }];
    let spans = vec![Span { at: 1.0, from: 0.0, to: 5e3, label: label() }];
    let cells = (0..20).map(|i| {
        let x = f64::from(i) * 1e6;
        Cell { x: [x, x + 1e6], y: [1e3, 1e5], shade: f64::from(i) / 20.0, label: label() }
    });
    let rule = |upright| Layer::Rule { name: "rule".into(), upright, value: 3e3 };
    let hue = Hue(2);
    let plots = [
        Plot::new("cdf", HOSTILE, HOSTILE, (log(), share()), vec![rising(0), rising(1)]),
        Plot::new(
            "heat",
            HOSTILE,
            "",
            (Axis::linear("t", Unit::Time), log()),
            vec![Layer::Heat { name: label(), cells: cells.collect() }],
        ),
        Plot::new(
            "rows",
            HOSTILE,
            "",
            (log(), names(3)),
            vec![
                Layer::Boxes { name: "boxes".into(), hue, items: boxed },
                Layer::Spans { name: label(), hue, items: spans },
                Layer::Intervals { name: "i".into(), hue, items: vec![interval(2.0)] },
                rule(true),
            ],
        ),
        Plot::new(
            "columns",
            HOSTILE,
            "",
            (names(12), Axis::linear("y", Unit::Rate)),
            vec![
                Layer::line("", Hue::NEUTRAL, vec![[0.0, 1e3], [5.0, 3e3]]),
                Layer::Intervals { name: "mean".into(), hue, items: vec![interval(0.0), interval(3.0)] },
                Layer::dots("dots", hue, vec![[1.0, 2e3]]),
                rule(false),
            ],
        ),
    ];
    let mut section = Section::new(HOSTILE);
    plots.into_iter().for_each(|p| section.plot(p));
    let mut table = Table::new(HOSTILE, ["a", HOSTILE]);
    table.push(["1".to_owned(), label()]);
    section.table(table);
    let mut shares = Table::new("shares", ["share", ""]);
    shares.push([paper::document::Cell::from("all"), paper::document::Cell::bar(1.0)]);
    section.table(shares);
    section.blocks.push(Block::Code { title: label(), text: label() });
    Document {
        title: "the page".into(),
        about: label(),
        verdict: vec![label().into()],
        warnings: vec![label().into()],
        sections: vec![section],
        ..Document::default()
    }
}

/// Runs Chromium on a page, in a namespace where there is no network at all.
fn chromium(dir: &Path, args: &[&str], page: &Path) -> String {
    let profile = dir.join("profile");
    let out = Command::new("timeout")
        .args(["120", "unshare", "--net", "--", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--no-first-run", "--disable-background-networking", "--hide-scrollbars", "--virtual-time-budget=4000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(args)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn attribute(dom: &str, name: &str) -> String {
    let key = format!("data-{name}=\"");
    let value = dom.split(&key).nth(1).unwrap_or_else(|| panic!("no {key} in {:.400}", dom));
    value.split('"').next().unwrap().to_owned()
}

/// A trace with every kind of record, as `trace` with all its options writes it.
fn whole_trace(dir: &Path) -> Document {
    let path = dir.join("run");
    let mut writer = store::Writer::create(&path, synthetic::provenance()).unwrap();
    let events = synthetic::trace(2, 300).into_iter().chain(synthetic::others(900, 40_000));
    events.for_each(|e| writer.event(&e).unwrap());
    let end = record::Instant::from_nanos(9_000_000_000);
    writer.finish(end, record::Lost::default(), record::Coverage::default()).unwrap();
    report::page::trace::document(HOSTILE, &store::Run::open(&path).unwrap()).unwrap()
}

#[test]
fn the_page_of_a_trace_with_every_kind_of_record_is_drawn_whole() {
    tier::needs!(Need::Root, Need::Program("chromium"), Need::Program("unshare"), Need::Program("timeout"));
    let dir = tempfile::tempdir().unwrap();
    let document = whole_trace(dir.path());
    let plots = document.plots().count().to_string();
    let path = dir.path().join("page.html");
    let page = html::page(&[document], "test").unwrap();
    std::fs::write(&path, with_script(&page, WATCH)).unwrap();
    for width in ["1200,900", "500,900"] {
        let dom = chromium(dir.path(), &["--dump-dom", &format!("--window-size={width}")], &path);
        assert_eq!(attribute(&dom, "wrong"), "", "at {width}");
        assert_eq!(attribute(&dom, "requests"), "0");
        assert_eq!((attribute(&dom, "plots"), attribute(&dom, "drawn")), (plots.clone(), plots.clone()), "at {width}");
        assert_eq!(attribute(&dom, "broken"), "0", "an attribute is no number at {width}");
        assert_eq!(attribute(&dom, "wide"), "no", "the page is wider than the window of {width}");
        let marks: Vec<u32> = attribute(&dom, "marks").split(',').map(|n| n.parse().unwrap()).collect();
        assert!(marks.iter().all(|n| *n > 5), "{marks:?}");
    }
    std::fs::write(&path, page).unwrap();
    assert_eq!(tier::browser::problems(&[path]), Vec::<String>::new());
}

#[test]
fn a_page_draws_everything_asks_for_nothing_and_runs_nothing_of_a_run() {
    tier::needs!(Need::Root, Need::Program("chromium"), Need::Program("unshare"), Need::Program("timeout"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page.html");
    let page = html::page(&[everything()], HOSTILE).unwrap();
    std::fs::write(&path, with_script(&page, WATCH)).unwrap();
    for width in ["1200,900", "500,900"] {
        let dom = chromium(dir.path(), &["--dump-dom", &format!("--window-size={width}")], &path);
        assert!(dom.contains("<title>the page</title>"), "a name of the run was run");
        assert_eq!(attribute(&dom, "wrong"), "", "at {width}");
        assert_eq!(attribute(&dom, "requests"), "0");
        assert_eq!((attribute(&dom, "plots").as_str(), attribute(&dom, "drawn").as_str()), ("4", "4"), "at {width}");
        assert_eq!(attribute(&dom, "broken"), "0", "an attribute is no number at {width}");
        assert_eq!(attribute(&dom, "wide"), "no", "the page is wider than the window of {width}");
        let marks: Vec<u32> = attribute(&dom, "marks").split(',').map(|n| n.parse().unwrap()).collect();
        assert!(marks.iter().all(|n| *n > 10), "{marks:?}");
    }
    let shot = |name: &str, scheme: &str| {
        let png = dir.path().join(name);
        let to = format!("--screenshot={}", png.display());
        chromium(dir.path(), &[&to, "--window-size=1000,1400", scheme], &path);
        std::fs::read(png).unwrap()
    };
    let (light, dark) = (
        shot("l.png", "--blink-settings=preferredColorScheme=1"),
        shot("d.png", "--blink-settings=preferredColorScheme=0"),
    );
    assert!(
        light.starts_with(b"\x89PNG") && light.len() > 20_000 && dark.len() > 20_000,
        "{} {}",
        light.len(),
        dark.len()
    );
    assert_ne!(light, dark, "light and dark look the same");
    let pdf = dir.path().join("page.pdf");
    chromium(dir.path(), &[&format!("--print-to-pdf={}", pdf.display())], &path);
    assert!(std::fs::read(pdf).unwrap().starts_with(b"%PDF"));
}

/// Saves a plot both ways, follows a point to its row, and writes what came of it where the test
/// reads it.
const USE: &str = "<script>
const act = () => {
  const root = document.documentElement.dataset, saved = [];
  const click = HTMLAnchorElement.prototype.click;
  HTMLAnchorElement.prototype.click = function () { this.download ? saved.push([this.download, this.href]) : click.call(this); };
  const figure = document.querySelector('figure');
  figure.querySelectorAll('.save button').forEach(button => button.click());
  const circle = figure.querySelector('.chart svg circle').getBoundingClientRect(), overlay = figure.querySelector('.overlay');
  const at = { clientX: circle.x + circle.width / 2, clientY: circle.y + circle.height / 2, bubbles: true };
  overlay.dispatchEvent(new MouseEvent('click', at));
  root.hash = location.hash;
  root.opened = [...document.querySelectorAll('details.rows')].map(d => d.open).join(',');
  setTimeout(() => {
    root.saved = saved.map(([name, address]) => name + ' ' + address.slice(0, 22)).join(' | ');
    const text = decodeURIComponent(saved[0][1].split(',').slice(1).join(','));
    const drawn = new DOMParser().parseFromString(text, 'image/svg+xml');
    root.picture = [drawn.querySelectorAll('circle').length, drawn.querySelectorAll('parsererror').length, text.includes('var(') ? 'var' : 'own'].join(',');
  }, 600);
};
addEventListener('load', () => setTimeout(act, 800));
</script>";

#[test]
fn a_plot_is_saved_and_its_points_lead_to_their_rows() {
    tier::needs!(Need::Root, Need::Program("chromium"), Need::Program("unshare"), Need::Program("timeout"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page.html");
    let mut section = Section::new("trials");
    let links = vec!["trial-7".to_owned()];
    let dots = Layer::Dots { name: "trial".into(), hue: Hue(2), points: vec![[1.0, 2.0]], links };
    let axes = (Axis::linear("x", Unit::Plain).reaching(0.0), Axis::linear("y", Unit::Rate).reaching(0.0));
    section.plot(Plot::new("blocks", "by block", "", axes, vec![dots]));
    let mut table = Table::new("trials", ["trial"]);
    table.push(Row { anchor: Some("trial-7".into()), ..Row::of(["7"]) });
    section.blocks.push(Block::OnPage(table));
    let document = Document { title: "t".into(), sections: vec![section], ..Document::default() };
    let page = html::page(&[document], "test").unwrap();
    std::fs::write(&path, with_script(&page, &format!("{WATCH}{USE}"))).unwrap();
    let dom = chromium(dir.path(), &["--dump-dom", "--window-size=1200,900"], &path);
    assert_eq!(attribute(&dom, "wrong"), "");
    assert_eq!((attribute(&dom, "hash").as_str(), attribute(&dom, "opened").as_str()), ("#trial-7", "true"));
    assert_eq!(attribute(&dom, "saved"), "blocks.svg data:image/svg+xml;cha | blocks.png data:image/png;base64,");
    assert_eq!(attribute(&dom, "picture"), "1,0,own");
}
