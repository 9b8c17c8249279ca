//! Where the boxes and lines of a graph stand: in layers from left to right, as few lines crossing
//! as a few sweeps find (Sugiyama, Tagawa and Toda 1981).

/// Width and height of a box, pixels.
pub const BOX: [f64; 2] = [176.0, 42.0];
/// Radius of what is written on a line, pixels.
pub const MARK: f64 = 9.0;

/// Between layers, and between what is below each other in one.
const GAP: [f64; 2] = [96.0, 16.0];
/// Height that a line takes in a layer that it passes.
const PASSING: f64 = 10.0;
/// Around everything.
const MARGIN: f64 = 24.0;
/// How far a line from a box to itself reaches beside it.
const LOOP: f64 = 34.0;
/// Sweeps over the layers.
const SWEEPS: usize = 12;
/// Places along a line where its mark may stand.
const PLACES: usize = 60;

/// A box, by its left upper corner.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rect {
    /// Its left side.
    pub x: f64,
    /// Its upper side.
    pub y: f64,
}

/// A graph with its places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    /// Width and height, pixels.
    pub size: [f64; 2],
    /// Each box.
    pub boxes: Vec<Rect>,
    /// Each line as cubic Bézier curves: where it begins, then three points for each; empty for one
    /// that is not drawn.
    pub lines: Vec<Vec<[f64; 2]>>,
    /// Where each line's mark stands; `None` where it would cover a box or another mark.
    pub marks: Vec<Option<[f64; 2]>>,
}

/// What stands in a layer: a box, or a line that passes it.
struct Layered {
    /// The layer of each thing, boxes first.
    layer: Vec<usize>,
    /// What is in each layer, from above.
    order: Vec<Vec<usize>>,
    /// From one layer to the next.
    links: Vec<[usize; 2]>,
    /// The things that each line goes through, from left to right; empty for one that is not drawn
    /// or that ends where it begins.
    through: Vec<Vec<usize>>,
}

/// Places `n` boxes and the lines between them, each given by the indices of its ends.
pub(super) fn of(n: usize, ends: &[Option<[usize; 2]>]) -> Drawing {
    let mut layered = layers(n, ends);
    untangle(&mut layered);
    let middles = heights(&layered, n);
    let left = |thing: usize| MARGIN + layered.layer[thing] as f64 * (BOX[0] + GAP[0]);
    let boxes: Vec<Rect> = (0..n).map(|i| Rect { x: left(i), y: middles[i] - BOX[1] / 2.0 }).collect();
    let ports = ports(&layered, n, &middles);
    let lines: Vec<Vec<[f64; 2]>> = ends
        .iter()
        .enumerate()
        .map(|(i, ends)| match (ends, &layered.through[i][..]) {
            (Some([at, to]), []) if at == to => around(boxes[*at]),
            (Some([from, _]), [first, inner @ .., last]) => {
                let [leaves, arrives] = ports[i];
                let mut line = vec![[left(*first) + BOX[0], leaves]];
                for thing in inner {
                    curve(&mut line, [left(*thing), middles[*thing]]);
                    let across = [left(*thing) + BOX[0], middles[*thing]];
                    curve(&mut line, across);
                }
                curve(&mut line, [left(*last), arrives]);
                if from != first {
                    line.reverse();
                }
                line
            }
            _ => Vec::new(),
        })
        .collect();
    let corners = boxes.iter().map(|of| [of.x + BOX[0], of.y + BOX[1]]);
    let ends = corners.chain(lines.iter().flatten().copied());
    let [right, lowest] = ends.fold([0.0, 0.0], |[x, y]: [f64; 2], at| [x.max(at[0]), y.max(at[1])]);
    let size = [right + MARGIN, lowest + MARGIN];
    let marks = marks(&boxes, &lines);
    Drawing { size, boxes, lines, marks }
}

/// Each box one layer to the right of those that connect to it, as far as no circle forbids it: a
/// line that closes a circle goes back. A line that passes layers is a thing in each of them.
fn layers(n: usize, ends: &[Option<[usize; 2]>]) -> Layered {
    let mut forward: Vec<Vec<usize>> = vec![Vec::new(); n];
    for [from, to] in ends.iter().flatten().filter(|[from, to]| from != to) {
        forward[*from].push(*to);
    }
    let mut place = vec![usize::MAX; n];
    finished(&forward).into_iter().rev().enumerate().for_each(|(at, node)| place[node] = at);
    let rightwards = |[from, to]: [usize; 2]| if place[from] < place[to] { [from, to] } else { [to, from] };
    let mut by_place: Vec<[usize; 2]> =
        ends.iter().flatten().filter(|[from, to]| from != to).map(|ends| rightwards(*ends)).collect();
    by_place.sort_by_key(|[from, _]| place[*from]);
    let mut layer = vec![0; n];
    for [from, to] in by_place {
        layer[to] = layer[to].max(layer[from] + 1);
    }
    // What nothing leads to stands beside what it leads to, and not at the left of everything.
    for node in 0..n {
        let leads_to = ends.iter().flatten().filter(|[from, to]| from != to).map(|ends| rightwards(*ends));
        let leads_to: Vec<[usize; 2]> = leads_to.filter(|ends| ends.contains(&node)).collect();
        if leads_to.iter().all(|[from, _]| *from == node)
            && let Some(next) = leads_to.iter().map(|[_, to]| layer[*to]).min()
        {
            layer[node] = next - 1;
        }
    }
    let mut links = Vec::new();
    let mut through = Vec::with_capacity(ends.len());
    for ends in ends {
        let Some([from, to]) = ends.filter(|[from, to]| from != to).map(rightwards) else {
            through.push(Vec::new());
            continue;
        };
        let mut things = vec![from];
        for between in layer[from] + 1..layer[to] {
            layer.push(between);
            things.push(layer.len() - 1);
        }
        things.push(to);
        links.extend(things.windows(2).map(|pair| [pair[0], pair[1]]));
        through.push(things);
    }
    let mut order: Vec<Vec<usize>> = vec![Vec::new(); layer.iter().max().map_or(0, |last| last + 1)];
    (0..layer.len()).for_each(|thing| order[layer[thing]].push(thing));
    Layered { layer, order, links, through }
}

/// The boxes in the order in which a walk along the lines is done with them: whatever a box leads
/// to comes before it, but where that leads back to it.
fn finished(forward: &[Vec<usize>]) -> Vec<usize> {
    let n = forward.len();
    let mut begun_at = vec![false; n];
    let mut done = Vec::with_capacity(n);
    let mut led_to = vec![false; n];
    forward.iter().flatten().for_each(|to| led_to[*to] = true);
    // What nothing leads to begins the walk.
    for start in (0..n).filter(|i| !led_to[*i]).chain(0..n) {
        if begun_at[start] {
            continue;
        }
        begun_at[start] = true;
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            match forward[node].get(*next) {
                Some(&to) => {
                    *next += 1;
                    if !begun_at[to] {
                        begun_at[to] = true;
                        path.push((to, 0));
                    }
                }
                None => {
                    done.push(node);
                    path.pop();
                }
            }
        }
    }
    done
}

/// Orders each layer so that few lines cross: everything at the mean place of its neighbours in the
/// layer before, and then in the one behind, and the best that was seen stays.
fn untangle(of: &mut Layered) {
    let mut best = (crossings(of), of.order.clone());
    for sweep in 0..SWEEPS {
        let rightwards = sweep % 2 == 0;
        let layers: Vec<usize> = if rightwards {
            (1..of.order.len()).collect()
        } else {
            (0..of.order.len().saturating_sub(1)).rev().collect()
        };
        for layer in layers {
            let place = places(of);
            let mean = |thing: usize| {
                let near = of.links.iter().filter_map(|[from, to]| match rightwards {
                    true => (*to == thing).then_some(*from),
                    false => (*from == thing).then_some(*to),
                });
                let (sum, n) = near.fold((0.0, 0.0), |(sum, n), near| (sum + place[near] as f64, n + 1.0));
                if n > 0.0 { sum / n } else { place[thing] as f64 }
            };
            let mut keyed: Vec<(f64, usize)> = of.order[layer].iter().map(|thing| (mean(*thing), *thing)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            of.order[layer] = keyed.into_iter().map(|(_, thing)| thing).collect();
        }
        let now = crossings(of);
        if now < best.0 {
            best = (now, of.order.clone());
        }
    }
    of.order = best.1;
}

/// The place of each thing in its layer.
fn places(of: &Layered) -> Vec<usize> {
    let mut place = vec![0; of.layer.len()];
    of.order.iter().for_each(|layer| layer.iter().enumerate().for_each(|(at, thing)| place[*thing] = at));
    place
}

fn crossings(of: &Layered) -> usize {
    let place = places(of);
    let mut by_layer: Vec<Vec<[usize; 2]>> = vec![Vec::new(); of.order.len()];
    of.links.iter().for_each(|[from, to]| by_layer[of.layer[*from]].push([place[*from], place[*to]]));
    let cross = |links: &[[usize; 2]]| {
        let later = links.iter().enumerate().flat_map(|(i, a)| links[i + 1..].iter().map(move |b| (a, b)));
        later.filter(|(a, b)| (a[0] < b[0] && a[1] > b[1]) || (a[0] > b[0] && a[1] < b[1])).count()
    };
    by_layer.iter().map(|links| cross(links)).sum()
}

/// How far down the middle of each thing is: as near to the mean of its neighbours as its own
/// layer's order leaves room for.
fn heights(of: &Layered, n: usize) -> Vec<f64> {
    let height = |thing: usize| if thing < n { BOX[1] } else { PASSING };
    let apart = |a: usize, b: usize| (height(a) + height(b)) / 2.0 + GAP[1];
    let mut middle = vec![0.0; of.layer.len()];
    for layer in &of.order {
        let mut at = 0.0;
        for (i, thing) in layer.iter().enumerate() {
            at += if i == 0 { height(*thing) / 2.0 } else { apart(layer[i - 1], *thing) };
            middle[*thing] = at;
        }
    }
    for sweep in 0..SWEEPS {
        let rightwards = sweep % 2 == 0;
        let layers: Vec<&Vec<usize>> =
            if rightwards { of.order.iter().collect() } else { of.order.iter().rev().collect() };
        for layer in layers {
            let wanted: Vec<f64> = layer
                .iter()
                .map(|thing| {
                    let near = of.links.iter().filter_map(|[from, to]| match thing {
                        thing if thing == from => Some(*to),
                        thing if thing == to => Some(*from),
                        _ => None,
                    });
                    let (sum, n) = near.fold((0.0, 0.0), |(sum, n), near| (sum + middle[near], n + 1.0));
                    if n > 0.0 { sum / n } else { middle[*thing] }
                })
                .collect();
            // Pushed down where something above is in the way, and pushed up where something below
            // is: between the two every distance is kept as well.
            let (mut down, mut up) = (wanted.clone(), wanted);
            for i in 1..layer.len() {
                down[i] = down[i].max(down[i - 1] + apart(layer[i - 1], layer[i]));
            }
            for i in (1..layer.len()).rev() {
                up[i - 1] = up[i - 1].min(up[i] - apart(layer[i - 1], layer[i]));
            }
            layer.iter().zip(down.iter().zip(&up)).for_each(|(thing, (down, up))| middle[*thing] = (down + up) / 2.0);
        }
    }
    let highest = (0..of.layer.len()).map(|thing| middle[thing] - height(thing) / 2.0).fold(f64::INFINITY, f64::min);
    middle.iter_mut().for_each(|at| *at += MARGIN - highest);
    middle
}

/// How far down each line leaves the box to its left and reaches the one to its right: the lines on
/// one side of a box are spread over it, in the order of where they go.
fn ports(of: &Layered, n: usize, middles: &[f64]) -> Vec<[f64; 2]> {
    let mut ports = vec![[0.0; 2]; of.through.len()];
    for node in 0..n {
        for right in [true, false] {
            let mut lines: Vec<(f64, usize)> = Vec::new();
            for (i, things) in of.through.iter().enumerate() {
                if let [first, second, ..] = things[..]
                    && right
                    && first == node
                {
                    lines.push((middles[second], i));
                }
                if let [.., before, last] = things[..]
                    && !right
                    && last == node
                {
                    lines.push((middles[before], i));
                }
            }
            lines.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let step = BOX[1] / (lines.len() + 1) as f64;
            for (at, (_, i)) in lines.iter().enumerate() {
                ports[*i][usize::from(!right)] = middles[node] - BOX[1] / 2.0 + step * (at + 1) as f64;
            }
        }
    }
    ports
}

/// Goes on to a point, level at both ends.
fn curve(line: &mut Vec<[f64; 2]>, to: [f64; 2]) {
    let Some(&from) = line.last() else { return };
    let half = f64::midpoint(from[0], to[0]);
    line.extend([[half, from[1]], [half, to[1]], to]);
}

/// A line from a box to itself, beside it.
fn around(of: Rect) -> Vec<[f64; 2]> {
    let right = of.x + BOX[0];
    let (above, below) = (of.y + BOX[1] * 0.2, of.y + BOX[1] * 0.8);
    vec![[right, above], [right + LOOP, above - 8.0], [right + LOOP, below + 8.0], [right, below]]
}

/// A place for each mark on its line, as near to the middle as nothing is in the way.
fn marks(boxes: &[Rect], lines: &[Vec<[f64; 2]>]) -> Vec<Option<[f64; 2]>> {
    let mut taken: Vec<[f64; 2]> = Vec::new();
    let free = |at: [f64; 2], taken: &[[f64; 2]]| {
        let beside = |of: &Rect| {
            let x = at[0].clamp(of.x, of.x + BOX[0]) - at[0];
            let y = at[1].clamp(of.y, of.y + BOX[1]) - at[1];
            x.hypot(y) > MARK + 1.0
        };
        let apart = |of: &[f64; 2]| (of[0] - at[0]).hypot(of[1] - at[1]) > 2.0 * MARK + 1.0;
        boxes.iter().all(beside) && taken.iter().all(apart)
    };
    lines
        .iter()
        .map(|line| {
            let curves = line.len().saturating_sub(1) / 3;
            let mut places: Vec<usize> = (1..PLACES * curves).collect();
            places.sort_by_key(|place| (place.abs_diff(PLACES * curves / 2), *place));
            let found = places.into_iter().map(|place| point(line, place)).find(|at| free(*at, &taken))?;
            taken.push(found);
            Some(found)
        })
        .collect()
}

/// So many places along a line of curves.
fn point(line: &[[f64; 2]], place: usize) -> [f64; 2] {
    let of = &line[place / PLACES * 3..];
    let t = (place % PLACES) as f64 / PLACES as f64;
    let mix = |a: [f64; 2], b: [f64; 2]| [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t];
    let [a, b, c] = [mix(of[0], of[1]), mix(of[1], of[2]), mix(of[2], of[3])];
    let [a, b] = [mix(a, b), mix(b, c)];
    mix(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(a: Rect, b: Rect) -> bool {
        (a.x - b.x).abs() >= BOX[0] || (a.y - b.y).abs() >= BOX[1]
    }

    fn checked(n: usize, ends: &[[usize; 2]]) -> Drawing {
        let ends: Vec<Option<[usize; 2]>> = ends.iter().copied().map(Some).collect();
        let drawing = of(n, &ends);
        assert_eq!(drawing, of(n, &ends), "the same graph is drawn alike");
        for (i, a) in drawing.boxes.iter().enumerate() {
            assert!(a.x >= 0.0 && a.x + BOX[0] <= drawing.size[0], "{drawing:?}");
            assert!(a.y >= 0.0 && a.y + BOX[1] <= drawing.size[1], "{drawing:?}");
            assert!(drawing.boxes[i + 1..].iter().all(|b| apart(*a, *b)), "{drawing:?}");
        }
        for (ends, line) in ends.iter().zip(&drawing.lines) {
            let [from, to] = ends.unwrap();
            let touches = |of: Rect, at: [f64; 2]| {
                (at[0] == of.x || at[0] == of.x + BOX[0]) && at[1] > of.y && at[1] < of.y + BOX[1]
            };
            assert!(
                touches(drawing.boxes[from], line[0]) && touches(drawing.boxes[to], line[line.len() - 1]),
                "{line:?}"
            );
        }
        let marks: Vec<[f64; 2]> = drawing.marks.iter().flatten().copied().collect();
        for (i, a) in marks.iter().enumerate() {
            assert!(marks[i + 1..].iter().all(|b| (a[0] - b[0]).hypot(a[1] - b[1]) > 2.0 * MARK), "{marks:?}");
        }
        drawing
    }

    #[test]
    fn who_connects_is_left_of_whom_it_connects_to() {
        let drawing = checked(4, &[[0, 1], [1, 2], [0, 2], [3, 2]]);
        let x: Vec<f64> = drawing.boxes.iter().map(|of| of.x).collect();
        assert!(x[0] < x[1] && x[1] < x[2] && x[3] < x[2], "{x:?}");
        assert!(drawing.marks.iter().all(Option::is_some));
        // The line that passes the layer in the middle is not drawn through its box.
        let passing = &drawing.lines[2];
        let [top, bottom] = [drawing.boxes[1].y, drawing.boxes[1].y + BOX[1]];
        assert!(passing.len() == 10 && !(top..bottom).contains(&passing[3][1]), "{drawing:?}");
    }

    #[test]
    fn circles_loops_and_lines_without_an_end_are_drawn_as_far_as_they_go() {
        let drawing = checked(3, &[[0, 1], [1, 0], [1, 2], [2, 0], [2, 2]]);
        assert_eq!(drawing.lines.len(), 5);
        assert_eq!(of(1, &[None]).lines, [Vec::<[f64; 2]>::new()]);
        assert_eq!(of(0, &[]).boxes, []);
    }

    #[test]
    fn forty_boxes_with_many_lines_have_room() {
        let mut state = 7_u64;
        let mut drawn = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for lines in [20, 60, 120] {
            let ends: Vec<[usize; 2]> = (0..lines).map(|_| [drawn(40), drawn(40)]).collect();
            let drawing = checked(40, &ends);
            assert!(drawing.marks.iter().flatten().count() * 10 >= lines * 9, "{lines}: {:?}", drawing.marks);
        }
    }

    #[test]
    fn lines_that_need_not_cross_do_not() {
        // Two pairs that stand crosswise at first.
        let mut layered = layers(4, &[Some([0, 3]), Some([1, 2])]);
        untangle(&mut layered);
        assert_eq!(crossings(&layered), 0);
    }
}
