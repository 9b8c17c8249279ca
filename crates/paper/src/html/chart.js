'use strict';
// Draws the plots of the page from their descriptions, with D3's scales, axes and brush.
(() => {
  const plots = JSON.parse(document.getElementById('plots').textContent);
  const UNITS = {
    time: [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']],
    rate: [[1e9, 'Gbit/s'], [1e6, 'Mbit/s'], [1e3, 'kbit/s'], [1, 'bit/s']],
    bytes: [[1073741824, 'GiB'], [1048576, 'MiB'], [1024, 'KiB'], [1, 'B']],
  };
  const digits = (v, more) => {
    if (v === 0) return '0';
    const a = Math.abs(v);
    const decimals = a >= 100 ? 1 : a >= 1 ? 3 : Math.min(12, 3 - Math.floor(Math.log10(a)));
    return v.toLocaleString('en', { maximumFractionDigits: Math.min(20, decimals + more) }).replace('-', '−');
  };
  const words = (v, unit, size = Math.abs(v), more = 0) => {
    if (unit === 'share') return digits(v * 100, more) + ' %';
    if (!UNITS[unit]) return digits(v, more);
    const [scale, name] = UNITS[unit].find(u => size >= u[0] * 0.999) || UNITS[unit][UNITS[unit].length - 1];
    return digits(v / scale, more) + ' ' + name;
  };
  const colour = hue => `var(--h${hue})`;
  const node = (parent, name, attributes = {}) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    return parent.appendChild(made);
  };
  const element = (parent, name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return parent.appendChild(made);
  };

  // A row stands in a list that may be closed.
  const goTo = name => {
    const row = document.getElementById(name);
    if (!row) return;
    for (let list = row.closest('details'); list; list = list.parentElement.closest('details')) list.open = true;
    location.hash = name;
    row.scrollIntoView({ block: 'center' });
  };
  const keep = (name, address) => {
    const link = document.createElement('a');
    link.download = name;
    link.href = address;
    link.click();
  };
  const SHOWN = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'stroke-linejoin', 'font-size', 'font-family', 'font-weight', 'text-anchor', 'shape-rendering'];

  class Chart {
    constructor(figure, plot) {
      this.plot = plot;
      this.box = figure.querySelector('.chart');
      this.hidden = new Set();
      this.reach = { x: plot.x.reach, y: plot.y.reach };
      this.legend(figure);
      this.tip = element(this.box, 'div', 'tip');
      this.reset = element(this.box, 'button', 'reset', 'Show all');
      this.reset.hidden = true;
      this.reset.addEventListener('click', () => this.zoom(plot.x.reach, plot.y.reach));
      this.rows = figure.dataset.rows;
      this.save(figure);
      this.width = 0;
      this.fit();
      // Drawing changes the height, so it waits until the observer is done.
      new ResizeObserver(() => requestAnimationFrame(() => this.fit())).observe(this.box);
    }

    fit() {
      const width = Math.round(this.box.clientWidth);
      if (width > 0 && width !== this.width) { this.width = width; this.draw(); }
    }

    legend(figure) {
      const keys = new Map();
      for (const layer of this.plot.layers)
        if (layer.name && layer.kind !== 'heat' && !keys.has(layer.name)) keys.set(layer.name, layer);
      if (keys.size < 2 && ![...keys.values()].some(l => l.kind === 'rule' || l.dashed)) return;
      const list = document.createElement('ul');
      list.className = 'legend';
      this.box.before(list);
      for (const [name, layer] of keys) {
        const button = element(element(list, 'li'), 'button');
        button.type = 'button';
        button.setAttribute('aria-pressed', 'true');
        const key = node(button, 'svg', { viewBox: '0 0 22 10', 'aria-hidden': 'true' });
        const hue = colour(layer.kind === 'rule' ? 6 : layer.hue);
        if (layer.kind === 'line' || layer.kind === 'rule')
          node(key, 'line', { x1: 0, x2: 22, y1: 5, y2: 5, stroke: hue, 'stroke-width': 2.5, 'stroke-dasharray': layer.dashed || layer.kind === 'rule' ? '5 3' : 'none' });
        else if (layer.kind === 'dots' || layer.kind === 'intervals') node(key, 'circle', { cx: 11, cy: 5, r: 4, fill: hue });
        else node(key, 'rect', { x: 2, y: 0, width: 18, height: 10, fill: hue });
        const letter = this.letter(layer);
        if (letter) this.written(key, letter, 11, 5, 9);
        button.append(name);
        button.addEventListener('click', () => {
          const off = this.hidden.delete(name) ? false : (this.hidden.add(name), true);
          button.setAttribute('aria-pressed', String(!off));
          this.draw();
        });
      }
    }

    // The letter of a layer of bars that stand end to end: it distinguishes them where colours do not.
    letter(layer) { return this.plot.letters[this.plot.layers.indexOf(layer)]; }

    written(parent, letter, x, y, size) {
      node(parent, 'text', { x, y, 'font-size': size, 'text-anchor': 'middle', 'dominant-baseline': 'central', class: 'letter' }).textContent = letter;
    }

    // Buttons that save the plot as it is seen: as SVG, and as PNG of twice its size.
    save(figure) {
      const line = element(figure, 'p', 'save', 'Save as '), name = figure.id || 'plot';
      const button = (kind, act) => { const made = element(line, 'button', '', kind); made.type = 'button'; made.addEventListener('click', act); };
      button('SVG', () => keep(name + '.svg', 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(this.picture().text)));
      line.append(' ');
      button('PNG', () => {
        const { text, width, height } = this.picture(), image = new Image();
        image.onload = () => {
          const canvas = document.createElement('canvas');
          canvas.width = width * 2; canvas.height = height * 2;
          canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
          keep(name + '.png', canvas.toDataURL('image/png'));
        };
        image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text);
      });
    }

    // The plot with its title and legend, by itself: what the page's style sheet says stands in it.
    picture() {
      const live = this.box.querySelector('svg'), copy = live.cloneNode(true);
      const from = [live, ...live.querySelectorAll('*')], to = [copy, ...copy.querySelectorAll('*')];
      from.forEach((seen, i) => {
        const style = getComputedStyle(seen);
        to[i].removeAttribute('style');
        for (const name of SHOWN) if (style.getPropertyValue(name)) to[i].setAttribute(name, style.getPropertyValue(name));
      });
      copy.querySelector('.overlay')?.remove();
      const { width, height } = live.viewBox.baseVal, page = getComputedStyle(document.documentElement);
      const paper = page.getPropertyValue('--card'), ink = page.getPropertyValue('--ink'), font = 'system-ui, sans-serif';
      const keys = [...new Map(this.plot.layers.filter(l => l.name && l.kind !== 'heat' && !this.hidden.has(l.name)).map(l => [l.name, l]))];
      const whole = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      const all = height + 34 + 20 * keys.length;
      for (const [key, value] of Object.entries({ xmlns: 'http://www.w3.org/2000/svg', width, height: all, viewBox: `0 0 ${width} ${all}` })) whole.setAttribute(key, value);
      node(whole, 'rect', { width, height: all, fill: paper });
      node(whole, 'text', { x: 10, y: 22, fill: ink, 'font-size': 15, 'font-weight': 600, 'font-family': font }).textContent = this.plot.title;
      for (const [key, value] of Object.entries({ x: 0, y: 30, width, height })) copy.setAttribute(key, value);
      whole.append(copy);
      keys.forEach(([name, layer], i) => {
        const y = height + 40 + 20 * i, hue = page.getPropertyValue('--h' + (layer.kind === 'rule' ? 6 : layer.hue));
        node(whole, 'line', { x1: 12, x2: 34, y1: y, y2: y, stroke: hue, 'stroke-width': 4, 'stroke-dasharray': layer.dashed || layer.kind === 'rule' ? '5 3' : 'none' });
        node(whole, 'text', { x: 42, y: y + 4, fill: ink, 'font-size': 12, 'font-family': font }).textContent = name;
      });
      return { text: new XMLSerializer().serializeToString(whole), width, height: all };
    }

    zoom(x, y) {
      this.reach = { x, y };
      this.reset.hidden = x === this.plot.x.reach && y === this.plot.y.reach;
      this.draw();
    }

    scale(axis, reach, range) {
      const made = (axis.scale.kind === 'log' ? d3.scaleLog() : d3.scaleLinear()).domain(reach).range(range);
      if (axis.scale.kind === 'log') made.clamp(false);
      return made;
    }

    ticks(axis, scale, about) {
      if (axis.scale.kind === 'names') {
        const all = axis.scale.names.map((_, i) => i), [a, b] = scale.domain();
        const inside = all.filter(i => i >= Math.min(a, b) && i <= Math.max(a, b));
        const every = Math.max(1, Math.ceil(inside.length / Math.max(1, about)));
        return inside.filter((_, i) => i % every === 0);
      }
      if (axis.scale.kind === 'linear' && axis.unit === 'bytes') {
        const [low, high] = scale.domain();
        const step = 2 ** Math.ceil(Math.log2((high - low) / about * 0.75));
        return step > 0 ? Array.from({ length: Math.floor(high / step) - Math.ceil(low / step) + 1 }, (_, i) => (Math.ceil(low / step) + i) * step) : [];
      }
      if (axis.scale.kind === 'linear') return scale.ticks(about);
      const [low, high] = scale.domain(), decades = Math.log10(high / low);
      const steps = decades <= 1.2 ? [1, 1.5, 2, 3, 5, 7] : decades <= 2.5 ? [1, 2, 5] : [1];
      const every = steps.length > 1 ? 1 : Math.max(1, Math.ceil(decades / about));
      const found = [];
      for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++)
        if (((p % every) + every) % every === 0) for (const s of steps) found.push(s * 10 ** p);
      const inside = found.filter(v => v >= low && v <= high);
      return inside.length > 1 ? inside : scale.ticks(about);
    }

    // Where a label of the x axis stands: below its tick, and within the picture.
    below(scale, t, text, W) {
      const half = text.length * 3.2, at = Math.max(half, Math.min(scale(t), W - half));
      return { at, from: at - half, to: at + half };
    }

    // The ticks with labels that fit side by side: fewer steps, and of a logarithmic axis whole decades first.
    apart(axis, scale, about, W) {
      const ORDER = [1, 5, 2, 3, 1.5, 7];
      const rank = t => axis.scale.kind === 'log' ? ORDER.findIndex(m => Math.abs(t / 10 ** Math.floor(Math.log10(t) + 1e-9) - m) < 1e-6) : 0;
      for (; ; about--) {
        const ticks = this.ticks(axis, scale, about), write = this.tickWords(axis, scale, ticks), kept = [];
        for (const t of [...ticks].sort((a, b) => rank(a) - rank(b) || a - b)) {
          const own = { t, ...this.below(scale, t, write(t), W) };
          if (kept.every(other => own.to + 6 <= other.from || other.to + 6 <= own.from)) kept.push(own);
        }
        if (about <= 2 || axis.scale.kind === 'log' || kept.length === ticks.length) return kept.map(k => k.t).sort((a, b) => a - b);
      }
    }

    // As many decimals as it takes for no two ticks to read the same, however close one has looked.
    tickWords(axis, scale, ticks) {
      if (axis.scale.kind === 'names') return i => axis.scale.names[i] ?? '';
      const reach = scale.domain(), largest = Math.max(...reach.map(Math.abs));
      const size = axis.scale.kind === 'log' ? undefined : largest;
      let more = 0;
      while (more < 12 && new Set(ticks.map(t => words(t, axis.unit, size, more))).size < ticks.length) more++;
      return v => words(v, axis.unit, size, more);
    }

    draw() {
      const { plot, box } = this, W = this.width;
      box.querySelector('svg')?.remove();
      this.tip.style.visibility = 'hidden';
      const named = plot.y.scale.kind === 'names';
      const room = named ? W * 0.38 : 90;
      // Names that are too long to stand beside their rows stand above them.
      const above = named && Math.max(0, ...plot.y.scale.names.map(n => n.length * 6.6)) > room;
      const H = named ? Math.min(110 + (above ? 46 : 30) * Math.max(2, plot.y.scale.names.length), 2600) : Math.max(280, Math.min(380, W * 0.62));
      const yScaleTicks = this.ticks(plot.y, this.scale(plot.y, this.reach.y, [H, 0]), named ? 999 : 6);
      const yWords = this.tickWords(plot.y, this.scale(plot.y, this.reach.y, [0, 1]), yScaleTicks);
      // Names that begin alike differ at their ends, so what is cut is the middle.
      const cut = (text, room) => {
        const keep = Math.max(4, Math.floor(room / 6.6) - 1);
        return text.length <= keep + 1 ? text : text.slice(0, Math.ceil(keep * 0.45)) + '…' + text.slice(text.length - Math.floor(keep * 0.55));
      };
      const longest = Math.max(0, ...yScaleTicks.map(t => cut(yWords(t), room).length * 6.6));
      const M = { top: named && plot.y.label ? 26 : 8, right: 16, bottom: 46, left: above ? 18 : Math.min(room, longest) + (plot.y.label && !named ? 32 : 16) };
      const names = plot.x.scale.kind === 'names' ? plot.x.scale.names : null;
      const each = (W - M.left - M.right) / Math.max(1, names ? names.length : 1);
      const slanted = names && Math.max(...names.map(n => n.length)) * 6.8 > each;
      if (slanted) M.bottom = 46 + Math.min(90, Math.max(...names.map(n => n.length)) * 4.6);
      const h = H + (slanted ? M.bottom - 46 : 0);
      this.above = above;
      const svg = node(box, 'svg', { viewBox: `0 0 ${W} ${h}`, role: 'img', 'aria-label': plot.title + '. ' + plot.caption });
      const x = this.x = this.scale(plot.x, this.reach.x, [M.left, W - M.right]);
      const y = this.y = this.scale(plot.y, this.reach.y, named ? [M.top, h - M.bottom] : [h - M.bottom, M.top]);
      const xTicks = names ? this.ticks(plot.x, x, slanted ? Math.floor((W - M.left) / 18) : 999) : this.apart(plot.x, x, Math.max(2, Math.floor((W - M.left) / 80)), W);
      const clip = 'clip-' + plot.id + '-' + (Chart.count = (Chart.count || 0) + 1);
      node(node(svg, 'clipPath', { id: clip }), 'rect', { x: M.left, y: M.top, width: W - M.left - M.right, height: h - M.top - M.bottom });
      if (!named) for (const t of yScaleTicks) node(svg, 'line', { class: 'grid-line', x1: M.left, x2: W - M.right, y1: y(t), y2: y(t) });
      if (!names) for (const t of xTicks) node(svg, 'line', { class: 'grid-line', x1: x(t), x2: x(t), y1: M.top, y2: h - M.bottom });
      const bottom = d3.select(node(svg, 'g', { transform: `translate(0,${h - M.bottom})` }))
        .call(d3.axisBottom(x).tickValues(xTicks).tickFormat(this.tickWords(plot.x, x, xTicks)).tickSizeOuter(0));
      if (slanted) bottom.selectAll('text').attr('transform', 'rotate(-35)').style('text-anchor', 'end').attr('dx', '-.4em').attr('dy', '.5em')
        .each(function () { this.textContent = cut(this.textContent, 150); });
      else if (!names) {
        const below = this.below;
        bottom.selectAll('text').each(function (t) { this.setAttribute('x', below(x, t, this.textContent, W).at - x(t)); });
      }
      const left = d3.select(node(svg, 'g', { transform: `translate(${M.left},0)` }))
        .call(d3.axisLeft(y).tickValues(yScaleTicks).tickFormat(yWords).tickSizeOuter(0));
      if (above) {
        left.selectAll('text').attr('x', 2).attr('dy', '-1.4em').style('text-anchor', 'start');
        left.selectAll('line').remove();
      }
      left.selectAll('text').each(function () {
        const full = this.textContent, short = cut(full, above ? W - 4 : room);
        if (short !== full) { this.textContent = short; node(this, 'title').textContent = full; }
      });
      node(svg, 'text', { class: 'label', x: (M.left + W - M.right) / 2, y: h - 8, 'text-anchor': 'middle' }).textContent = plot.x.label;
      if (plot.y.label && named) node(svg, 'text', { class: 'label', x: 4, y: 14 }).textContent = plot.y.label;
      else if (plot.y.label) node(svg, 'text', { class: 'label', transform: `translate(12,${(h - M.bottom + M.top) / 2}) rotate(-90)`, 'text-anchor': 'middle' }).textContent = plot.y.label;
      const stage = node(svg, 'g', { 'clip-path': `url(#${clip})` });
      this.spots = [];
      for (const layer of plot.layers) if (!this.hidden.has(layer.name)) this.layer(stage, layer, M, W, h);
      this.interact(svg, M, W, h, named);
    }

    layer(stage, layer, M, W, h) {
      const { x, y, plot } = this, hue = colour(layer.hue ?? 6);
      const at = (x1, x2, y1, y2, label, link) => this.spots.push({ x1, x2, y1, y2, label, link });
      const floor = v => plot.x.scale.kind === 'log' ? Math.max(v, this.reach.x[0] / 1e6) : v;
      const row = Math.max(3, Math.min(20, Math.abs(y(1) - y(0)) * (this.above ? 0.4 : 0.62)));
      const pair = (p, name) => `${name ? name + '\n' : ''}${this.name(plot.x, p[0])}: ${this.name(plot.y, p[1])}`;
      if (layer.kind === 'line') {
        const low = plot.y.scale.kind === 'log' ? this.reach.y[0] / 1e3 : -Infinity;
        let path = '', before = null;
        const alone = [];
        for (const [i, p] of layer.points.entries()) {
          if (p[1] === null) { before = null; continue; }
          const px = x(floor(p[0])), py = y(Math.max(p[1], low));
          if (!isFinite(px) || !isFinite(py)) continue;
          if (before === null && (layer.points[i + 1] ?? [0, null])[1] === null) alone.push([px, py]);
          path += before === null ? `M${px.toFixed(1)},${py.toFixed(1)}` : layer.step ? `L${px.toFixed(1)},${before}L${px.toFixed(1)},${py.toFixed(1)}` : `L${px.toFixed(1)},${py.toFixed(1)}`;
          before = py.toFixed(1);
          at(px, px, py, py, pair(p, layer.name));
        }
        node(stage, 'path', { d: path || 'M0,0', fill: 'none', stroke: hue, 'stroke-width': layer.hue === 6 && !layer.name ? 1 : 2, 'stroke-opacity': layer.hue === 6 && !layer.name ? .45 : 1, 'stroke-linejoin': 'round', 'stroke-dasharray': layer.dashed ? '6 4' : 'none' });
        for (const [px, py] of alone) node(stage, 'circle', { cx: px, cy: py, r: 2.5, fill: hue });
      } else if (layer.kind === 'dots') {
        for (const [i, p] of layer.points.entries()) {
          const px = x(floor(p[0])), py = y(p[1]), link = layer.links?.[i];
          node(stage, 'circle', { cx: px, cy: py, r: 3.2, fill: hue, 'fill-opacity': .75 });
          at(px, px, py, py, pair(p, layer.name) + (link ? `\n${link.replace('-', ' ')}: click for its row` : ''), link);
        }
      } else if (layer.kind === 'intervals') {
        for (const i of layer.items) {
          const across = plot.y.scale.kind === 'names';
          const [a, b, c] = [i.low, i.value, i.high].map(v => across ? x(floor(v)) : y(v));
          const o = across ? y(i.at) : x(i.at);
          const line = (u1, u2, v1, v2, w) => node(stage, 'line', across ? { x1: u1, x2: u2, y1: v1, y2: v2, stroke: hue, 'stroke-width': w } : { x1: v1, x2: v2, y1: u1, y2: u2, stroke: hue, 'stroke-width': w });
          line(a, c, o, o, 2.5); line(a, a, o - 5, o + 5, 2); line(c, c, o - 5, o + 5, 2);
          node(stage, 'circle', across ? { cx: b, cy: o, r: 4.5, fill: hue } : { cx: o, cy: b, r: 4.5, fill: hue });
          const [p, q] = [Math.min(a, c), Math.max(a, c)];
          across ? at(p, q, o - 5, o + 5, i.label) : at(o - 5, o + 5, p, q, i.label);
        }
      } else if (layer.kind === 'boxes') {
        for (const b of layer.items) {
          const [p0, p1, p2, p3, p4] = b.figures.map(v => x(floor(v))), o = y(b.at), r = row / 2;
          node(stage, 'line', { x1: p0, x2: p4, y1: o, y2: o, stroke: hue, 'stroke-width': 1.5 });
          for (const p of [p0, p4]) node(stage, 'line', { x1: p, x2: p, y1: o - r / 2, y2: o + r / 2, stroke: hue, 'stroke-width': 1.5 });
          node(stage, 'rect', { x: p1, y: o - r, width: Math.max(1.5, p3 - p1), height: row, fill: hue, 'fill-opacity': .3, stroke: hue, 'stroke-width': 1.5 });
          node(stage, 'line', { x1: p2, x2: p2, y1: o - r, y2: o + r, stroke: hue, 'stroke-width': 3 });
          at(p0, p4, o - r, o + r, b.label);
        }
      } else if (layer.kind === 'spans') {
        for (const s of layer.items) {
          const [a, b] = [x(floor(s.from)), x(floor(s.to))].sort((m, n) => m - n), o = y(s.at);
          node(stage, 'rect', { x: a, y: o - row / 2, width: Math.max(1, b - a), height: row, fill: hue });
          if (this.letter(layer) && b - a >= 12) this.written(stage, this.letter(layer), (a + b) / 2, o, Math.min(12, row));
          at(a, b, o - row / 2, o + row / 2, s.label);
        }
      } else if (layer.kind === 'heat') {
        for (const c of layer.cells) {
          const [a, b] = c.x.map(v => x(floor(v))).sort((m, n) => m - n), [t, u] = c.y.map(v => y(v)).sort((m, n) => m - n);
          node(stage, 'rect', { x: a, y: t, width: Math.max(.8, b - a), height: Math.max(.8, u - t), fill: `rgba(var(--heat), ${(0.12 + 0.88 * c.shade).toFixed(3)})`, 'shape-rendering': 'crispEdges' });
          at(a, b, t, u, c.label);
        }
      } else if (layer.kind === 'rule') {
        const v = layer.upright ? x(layer.value) : y(layer.value);
        node(stage, 'line', layer.upright ? { x1: v, x2: v, y1: M.top, y2: h - M.bottom, stroke: colour(6), 'stroke-width': 1.5, 'stroke-dasharray': '5 3' } : { x1: M.left, x2: W - M.right, y1: v, y2: v, stroke: colour(6), 'stroke-width': 1.5, 'stroke-dasharray': '5 3' });
      }
    }

    name(axis, v) { return axis.scale.kind === 'names' ? axis.scale.names[Math.round(v)] ?? '' : words(v, axis.unit); }

    interact(svg, M, W, h, named) {
      const { plot } = this;
      const extent = [[M.left, M.top], [W - M.right, h - M.bottom]];
      const flat = plot.x.scale.kind === 'names';
      const brush = (named ? d3.brushX() : flat ? d3.brushY() : d3.brush()).extent(extent);
      const overlay = d3.select(node(svg, 'g', { class: 'overlay' })).call(brush);
      brush.on('end', event => {
        const s = event.selection;
        if (!s) return;
        overlay.call(brush.move, null);
        const [[a, b], [c, d]] = named ? [[s[0], M.top], [s[1], h - M.bottom]] : flat ? [[M.left, s[0]], [W - M.right, s[1]]] : s;
        if (c - a < 6 || d - b < 6) return;
        this.zoom(flat ? this.reach.x : [this.x.invert(a), this.x.invert(c)], named ? this.reach.y : [this.y.invert(d), this.y.invert(b)]);
      });
      const root = overlay.node();
      root.addEventListener('dblclick', () => this.zoom(plot.x.reach, plot.y.reach));
      // A point that leads to a row wins over what is drawn as near to it.
      const nearest = (event, linked) => {
        const frame = svg.getBoundingClientRect(), k = W / frame.width;
        const px = (event.clientX - frame.left) * k, py = (event.clientY - frame.top) * k;
        let best = null, least = 28;
        for (const s of this.spots) {
          const d = Math.hypot(Math.max(s.x1 - px, 0, px - s.x2), Math.max(s.y1 - py, 0, py - s.y2));
          if (linked && !s.link) continue;
          if (d < least || d === least && (d === 0 || s.link)) { best = s; least = d; }
        }
        return { best, least, frame, k, px, py };
      };
      root.addEventListener('click', event => {
        const { best, least } = nearest(event, true);
        if (best && least < 8) goTo(this.rows + best.link);
      });
      root.addEventListener('pointermove', event => {
        const { best, least, frame, k, px, py } = nearest(event, false);
        root.style.cursor = best?.link && least < 8 ? 'pointer' : '';
        if (!best) { this.tip.style.visibility = 'hidden'; return; }
        this.tip.textContent = best.label;
        const tip = this.tip.getBoundingClientRect();
        this.tip.style.left = Math.max(0, Math.min(px / k + 14, frame.width - tip.width)) + 'px';
        this.tip.style.top = Math.max(0, py / k - tip.height - 12) + 'px';
        this.tip.style.visibility = 'visible';
      });
      root.addEventListener('pointerleave', () => { this.tip.style.visibility = 'hidden'; });
    }
  }

  for (const figure of document.querySelectorAll('figure[data-plot]')) new Chart(figure, plots[Number(figure.dataset.plot)]);
  if (location.hash) goTo(decodeURIComponent(location.hash.slice(1)));
  document.documentElement.dataset.plots = String(plots.length);
})();
