//! `top RUN`: the screen of a run or a capture, with the keys that go through its time. Nothing is
//! measured, and no right is kept.

use std::path::Path;
use std::time::{Duration, Instant};

use super::feed::Feed;
use super::recording::Recorder;
use super::replay::Replay;
use super::screen::{Pressed, Screen};
use super::state::{Asked, State};
use super::{Args, TURN, write};
use crate::interrupt::Interrupt;

pub fn run(args: &Args, path: &Path, mut state: State, on_screen: bool) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    rights::keep_for_runs(&[path], &[], true)?;
    let mut replay = match path.is_dir() {
        true => Replay::read(path, args.interval)?,
        false => Replay::of_capture(path, args.interval)?,
    };
    let name = path.display().to_string();
    let mut feed = begun(args, &replay);
    if !on_screen {
        while let Some((at, slice)) = replay.step().filter(|_| !interrupt.came()) {
            feed.replay(at, slice);
            if !args.once {
                feed.rows(&mut state, true);
                write(args, &feed, &mut state, &name)?;
            }
        }
        return if args.once { write(args, &feed, &mut state, &name) } else { Ok(()) };
    }
    let mut screen = Screen::open()?;
    let (mut quit, mut next) = (false, Instant::now());
    let mut recorder = Recorder::default();
    while !quit && !interrupt.came() {
        let mut over = false;
        while !state.paused && Instant::now() >= next {
            let Some((at, slice)) = replay.step() else { break };
            feed.replay(at, slice);
            over = true;
            next += replay.turn();
        }
        let target = format!("{name} · {}", replay.place());
        feed.draw(None, over, &mut state, &mut screen, &target, &recorder)?;
        let wait = next.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(10), TURN);
        for pressed in screen.pressed(wait)? {
            let asked = match pressed {
                Pressed::Key(key) => state.key(key),
                Pressed::Mouse(mouse) => state.mouse(mouse),
            };
            let Some(asked) = asked else { continue };
            recorder.message.clear();
            match asked {
                Asked::Quit => quit = true,
                Asked::Copy => feed.line(&mut state).iter().for_each(|line| screen.copy(line)),
                Asked::Faster(by) => replay.faster(by),
                Asked::Seek(steps) => {
                    let to = replay.seek(steps);
                    if to < replay.shown() {
                        replay.rewind();
                        feed = begun(args, &replay);
                    }
                    while replay.shown() < to
                        && let Some((at, slice)) = replay.step()
                    {
                        feed.replay(at, slice);
                    }
                }
                Asked::Act(_) => "this is over: nothing can be traced in it".clone_into(&mut recorder.message),
                Asked::Keep | Asked::Redraw => {}
            }
            next = Instant::now() + replay.turn();
            feed.redraw();
        }
    }
    Ok(())
}

/// Nothing is shown yet.
fn begun(args: &Args, replay: &Replay) -> Feed {
    let mut feed = Feed::new(args.interval, false, args.redact, std::collections::HashMap::new());
    feed.looked_at = replay.sampled;
    feed.begin(replay.begins(), replay.counts_zero_windows);
    feed
}
