// What is wrong with the page that is shown, as sentences; nothing where all is well. Runs inside the browser.
() => {
  const problems = [];
  const told = (one) => {
    const text = (one.getAttribute?.("aria-label") || one.textContent || one.name || "").trim().slice(0, 40);
    return `<${one.tagName.toLowerCase()}> “${text}”`;
  };
  const shown = (one) => one.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  // Something kept for screen readers alone is clipped to a point.
  const clipped = (one) => {
    for (let at = one; at; at = at.parentElement) if (getComputedStyle(at).clipPath !== "none") return true;
    return false;
  };

  // Structure.
  if (!document.documentElement.lang) problems.push("the page has no language");
  if (!document.title.trim()) problems.push("the page has no title");
  for (const [name, selector] of [["h1", "h1"], ["main", "main"], ["banner", "body > header"]]) {
    const count = document.querySelectorAll(selector).length;
    if (count !== 1) problems.push(`there are ${count} of ${name}`);
  }
  let level = 1;
  for (const one of document.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
    const own = Number(one.tagName[1]);
    if (own > level + 1) problems.push(`${told(one)} skips a level`);
    level = own;
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const one of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) problems.push(`two have the id ${one}`);
  for (const name of ["aria-describedby", "aria-labelledby", "for"]) {
    for (const one of document.querySelectorAll(`[${name}]`)) {
      for (const id of one.getAttribute(name).split(/\s+/)) {
        if (!document.getElementById(id)) problems.push(`${told(one)} refers to ${id}, which is not there`);
      }
    }
  }

  // Pictures.
  for (const one of document.images) {
    if (!one.hasAttribute("alt")) problems.push(`${one.src} has no alt`);
    if (!one.complete || !one.naturalWidth) { problems.push(`${one.src} is not there`); continue; }
    const width = Number(one.getAttribute("width")), height = Number(one.getAttribute("height"));
    if (!width || !height) problems.push(`${one.src} has no reserved size`);
    else if (one.alt && Math.abs(width / height - one.naturalWidth / one.naturalHeight) > 0.01 * width / height) {
      problems.push(`${one.src} has ${one.naturalWidth}×${one.naturalHeight} pixels in a place of ${width}×${height}`);
    }
    const box = one.getBoundingClientRect();
    const bent = box.width / box.height / (one.naturalWidth / one.naturalHeight);
    if (one.alt && (bent < 0.97 || bent > 1.03)) problems.push(`${one.src} is shown ${bent.toFixed(2)} times as wide as it is`);
  }

  // Width.
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) problems.push(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);

  // What is pressed with a finger.
  for (const one of document.querySelectorAll("a[href],button,input:not([type=hidden]),select,textarea,summary")) {
    if (!shown(one)) continue;
    const boxes = [one, one.closest("label"), ...(one.labels || [])].filter(Boolean).map((own) => own.getBoundingClientRect());
    const [width, height] = [Math.max(...boxes.map((box) => box.width)), Math.max(...boxes.map((box) => box.height))];
    if (width < 24 || height < 24) problems.push(`${told(one)} is only ${width.toFixed(0)}×${height.toFixed(0)} large`);
    for (const box of boxes.slice(0, 1)) {
      if (box.left < -0.5 || box.right > root.clientWidth + 0.5) {
        if (!one.closest(".scroll")) problems.push(`${told(one)} stands outside of the window`);
      }
    }
  }

  // Text: where it is, and whether it can be read.
  const numbers = (colour) => {
    const found = colour.match(/[\d.]+/g).map(Number);
    return [found[0], found[1], found[2], found.length > 3 ? found[3] : 1];
  };
  const over = (front, back) => [0, 1, 2].map((one) => front[one] * front[3] + back[one] * (1 - front[3])).concat(1);
  const behind = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) layers.push(numbers(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const [red, green, blue] = colour.slice(0, 3).map((one) => {
      const share = one / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one) => {
    const back = behind(one), front = over(numbers(getComputedStyle(one).color), back);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const lines = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, owner = node.parentElement;
    if (!node.data.trim() || !shown(owner) || clipped(owner) || owner.closest("script,style,progress")) continue;
    const ratio = contrast(owner);
    if (ratio < 4.5) problems.push(`“${node.data.trim().slice(0, 40)}” has a contrast of ${ratio.toFixed(2)} only`);
    const size = parseFloat(getComputedStyle(owner).fontSize);
    if (size < 12 && !owner.closest("[aria-hidden=true]")) problems.push(`“${node.data.trim().slice(0, 40)}” is ${size} pixels small`);
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) if (box.width > 1) lines.push([node, box]);
  }
  for (const [place, [node, box]] of lines.entries()) {
    for (const [other, its] of lines.slice(place + 1)) {
      if (other === node) continue;
      const wide = Math.min(box.right, its.right) - Math.max(box.left, its.left);
      const high = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
      // Boxes of lines are higher than letters are.
      if (wide > 2 && high > 0.45 * Math.min(box.height, its.height)) {
        problems.push(`“${node.data.trim().slice(0, 30)}” lies over “${other.data.trim().slice(0, 30)}”`);
      }
    }
  }
  return problems;
}
