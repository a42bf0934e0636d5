// The formulas of src/analyse/explorer.rs, said again for the browser.
function breakdown(r, ask, k) {
  const others = Math.max(ask.concurrency - 1, 0);
  const rounds = Math.max(Math.ceil(Math.log2(ask.prompt * k.bytesPerToken / k.firstRoundBytes + 1)), 1);
  const prefill = r.prefillFloorS + ask.prompt / r.prefillTps;
  const alone = Math.max(ask.output - 1, 0) / r.decodeTps;
  const parts = {
    net: rounds * ask.rttS,
    shake: ask.handshakes * r.handshakeRounds * ask.rttS,
    queue: r.queueShare * others * (prefill + alone),
    prefill,
    decode: alone * (1 + r.decodeSlowdown * others),
  };
  parts.ttft = parts.net + parts.shake + parts.queue + parts.prefill;
  parts.total = parts.ttft + parts.decode;
  return parts;
}

(function () {
  const data = document.getElementById('x-data');
  if (!data) return;
  const k = JSON.parse(data.textContent);
  const get = id => document.getElementById('x-' + id);
  const NAMES = { net: 'network', shake: 'handshake', queue: 'queue', prefill: 'prefill', decode: 'decode' };
  const time = s => s >= 100 ? s.toFixed(0) + ' s' : s >= 1 ? s.toFixed(2) + ' s' : (s * 1000).toFixed(s < 0.01 ? 2 : 0) + ' ms';

  // #prompt=4096&output=256&concurrency=16&a=0&b=1&a-net=45&fresh=1 sets the state by address.
  const state = new URLSearchParams(location.hash.slice(1));
  for (const id of ['prompt', 'output', 'concurrency']) {
    if (state.has(id)) get(id).value = Math.log2(Number(state.get(id)));
  }
  // With one target there is nothing to compare it with, and no second choice on the page.
  const sides = k.targets.length > 1 ? ['a', 'b'] : ['a'];
  for (const id of sides.flatMap(side => [side, side + '-net'])) if (state.has(id)) get(id).value = state.get(id);
  if (state.has('fresh')) get('fresh').checked = true;

  function element(tag, attributes, text) {
    const made = document.createElement(tag);
    for (const name in attributes) made.setAttribute(name, attributes[name]);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function answer(side) {
    const target = k.targets[Number(get(side).value)];
    const net = get(side + '-net').value;
    const ask = {
      prompt: Math.round(2 ** get('prompt').value),
      output: Math.round(2 ** get('output').value),
      concurrency: Math.round(2 ** get('concurrency').value),
      rttS: net === 'measured' ? target.rttS : Number(net) / 1000,
      handshakes: get('fresh').checked ? 1 : 0,
    };
    return { name: target.name, ask, parts: breakdown(target, ask, k) };
  }

  function bar(label, one, keys, most) {
    const row = element('div', { class: 'row' });
    row.append(element('span', { class: 'name' }, one.name + ', ' + label));
    const sum = keys.reduce((total, key) => total + one.parts[key], 0);
    const line = element('div', { class: 'bar', role: 'img', 'aria-label': time(sum) });
    for (const key of keys) {
      const share = most > 0 ? 100 * one.parts[key] / most : 0;
      line.append(element('span', {
        class: 'b-' + key, style: 'width:' + share.toFixed(3) + '%',
        'data-s': one.parts[key], 'data-tip': one.name + '\n' + NAMES[key] + ': ' + time(one.parts[key]),
      }));
    }
    row.append(line, element('span', { class: 'sum', 'data-s': sum }, time(sum)));
    return row;
  }

  function wins(what, a, b) {
    if (a.name === b.name && a.value === b.value) return 'Equal ' + what + '.';
    const [first, second] = a.value <= b.value ? [a, b] : [b, a];
    const times = second.value / first.value;
    if (!(times > 1.005)) return 'No difference in the ' + what + '.';
    return first.name + ' wins the ' + what + ': ' + times.toFixed(times < 10 ? 1 : 0) + ' times sooner (' + time(first.value) + ' against ' + time(second.value) + ').';
  }

  function draw() {
    const ones = sides.map(answer);
    for (const id of ['prompt', 'output', 'concurrency']) {
      get(id + '-value').textContent = ones[0].ask[id].toLocaleString('en');
      get(id).setAttribute('aria-valuetext', String(ones[0].ask[id]));
    }
    const first = ['net', 'shake', 'queue', 'prefill'], all = first.concat('decode');
    const bars = get('bars');
    bars.replaceChildren();
    for (const [label, keys, sum] of [['first token', first, 'ttft'], ['whole answer', all, 'total']]) {
      // One target alone: both bars on one scale, so that they show what the first token's share is.
      const most = Math.max(...ones.map(one => one.parts[sides.length > 1 ? sum : 'total']));
      bars.append(...ones.map(one => bar(label, one, keys, most)));
    }
    const value = (one, sum) => ({ name: one.name, value: one.parts[sum] });
    const [a, b] = ones;
    get('verdict').textContent = b
      ? wins('first token', value(a, 'ttft'), value(b, 'ttft')) + ' ' + wins('whole answer', value(a, 'total'), value(b, 'total'))
      : a.name + ': the first token after ' + time(a.parts.ttft) + ', the whole answer after ' + time(a.parts.total) + '.';
  }

  get('prompt').closest('#x-explorer').addEventListener('input', draw);
  draw();
})();
