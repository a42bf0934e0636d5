// The value under the pointer, in a box of its own. Text only: nothing of it is parsed.
(function () {
  const box = document.createElement('div');
  box.id = 'tip';
  box.hidden = true;
  document.body.append(box);
  document.addEventListener('pointermove', event => {
    const over = event.target.closest && event.target.closest('[data-tip]');
    box.hidden = !over;
    if (!over) return;
    box.textContent = over.dataset.tip;
    const { clientWidth: width } = document.documentElement;
    box.style.left = Math.max(4, Math.min(event.clientX + 14, width - box.offsetWidth - 6)) + 'px';
    box.style.top = Math.max(4, event.clientY - box.offsetHeight - 10) + 'px';
  });
})();
