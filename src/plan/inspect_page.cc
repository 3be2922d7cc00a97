// Style and skeleton of the page of `lamina inspect --html`.

#include "plan/inspect_html.h"

namespace lamina {

const char* const kInspectStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #f6f6f3; --card: #ffffff; --sunk: #efeeea; --line: #dddcd6; --line-strong: #b9b8b0;
  --ink: #16161a; --ink-2: #55555c; --ink-3: #7c7c84;
  --weights: #2a78d6; --arena: #d98a00; --kv: #14966a; --track: #e4e3dd; --accent: #2a78d6; --bad: #c2321f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #121214; --card: #1c1c20; --sunk: #17171a; --line: #303036; --line-strong: #54545c;
    --ink: #f3f3f1; --ink-2: #b9b9c0; --ink-3: #8b8b94;
    --weights: #4a93ea; --arena: #d99a2b; --kv: #2bb483; --track: #2f2f35; --accent: #6cabf2; --bad: #ff7d68;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
.num, td, .tile, .range { font-variant-numeric: tabular-nums; }
header { padding: 28px 32px 18px; }
h1 { margin: 0; font-size: 26px; line-height: 1.2; letter-spacing: -0.015em; font-weight: 650; overflow-wrap: anywhere; }
.sub { margin: 4px 0 0; color: var(--ink-2); }
.facts { display: flex; flex-wrap: wrap; gap: 10px 36px; margin: 20px 0 0; padding: 0; }
.facts div { min-width: 0; }
.facts dt { color: var(--ink-3); font-size: 12px; }
.facts dd { margin: 0; font-size: 19px; font-weight: 600; letter-spacing: -0.01em; font-variant-numeric: tabular-nums; }
.facts small { font-size: 12px; font-weight: 400; color: var(--ink-2); letter-spacing: 0; }
.fault { margin: 16px 0 0; color: var(--bad); font-weight: 550; }
main { display: grid; grid-template-columns: minmax(0, 1fr) 400px; gap: 24px; padding: 0 32px 40px; align-items: start; }
@media (max-width: 1450px) { main { grid-template-columns: minmax(0, 1fr) 350px; } }
@media (max-width: 1050px) { main { grid-template-columns: minmax(0, 1fr); } aside.detail { position: static; max-height: none; } }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 12px; padding: 12px 0 0; border-top: 1px solid var(--line); color: var(--ink-2); font-size: 12px; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
.legend .scale { margin-left: auto; color: var(--ink-3); }
.stage { display: grid; grid-template-columns: 92px minmax(0, 1fr); column-gap: 14px; }
.stage h2 { margin: 0; font-size: 14px; font-weight: 650; color: var(--ink); } .stage .same { color: var(--ink-3); font-size: 11px; margin-top: 1px; }
.stage .who { color: var(--ink-2); font-size: 12px; padding-top: 8px; white-space: nowrap; }
.stage .who b { color: var(--ink); font-weight: 600; }
.groups { display: flex; flex-wrap: wrap; gap: 12px; }
.group { flex: 1 1 0; min-width: min(100%, 240px); }
.group > p { margin: 0 0 4px; font-size: 11px; color: var(--ink-3); }
.tiles { display: grid; gap: 6px; grid-template-columns: repeat(var(--columns), minmax(0, 1fr)); }
.tile { display: block; width: 100%; text-align: left; font: inherit; font-size: 11px; line-height: 1.4; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: 8px; padding: 7px 6px 8px; cursor: pointer; min-width: 0; }
.tile:hover { border-color: var(--line-strong); }
.tile:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.tile[aria-pressed="true"] { border-color: var(--accent); box-shadow: inset 0 0 0 1px var(--accent); }
.tile .top { display: flex; justify-content: space-between; align-items: baseline; gap: 6px; white-space: nowrap; }
.tile .id { font-weight: 650; font-size: 12.5px; }
.tile .id small { font-weight: 400; color: var(--ink-3); font-size: 11px; }
.tile .sum { color: var(--ink-2); }
.bar { display: flex; gap: 1px; height: 8px; margin: 5px 0 7px; border-radius: 3px; background: var(--track); overflow: hidden; }
.bar i { display: block; height: 100%; min-width: 1px; }
.w { background: var(--weights); } .a { background: var(--arena); } .k { background: var(--kv); }
.share { display: grid; grid-template-columns: auto 1fr; column-gap: 4px; align-items: baseline; }
.share .key { color: var(--ink-3); }
.share .range { text-align: right; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.share .rail { grid-column: 1 / -1; position: relative; height: 3px; border-radius: 2px; background: var(--track); margin: 1px 0 4px; }
.share .rail i { position: absolute; top: 0; bottom: 0; border-radius: 2px; background: var(--ink-2); min-width: 2px; }
.times { font-weight: 600; }
.amounts { display: grid; grid-template-columns: repeat(3, auto); justify-content: start; gap: 0 20px; margin: 0 0 8px; }
.amounts span { color: var(--ink-3); display: block; }
.roomy .tile { padding: 14px 16px 14px; font-size: 13px; border-radius: 10px; }
.roomy .tile .id { font-size: 16px; } .roomy .tile .id small { font-size: 12px; }
.roomy .bar { height: 12px; margin: 8px 0 10px; border-radius: 4px; } .roomy .share .rail { height: 4px; margin: 3px 0 7px; }
.roomy .tiles { gap: 12px; }
.edges { grid-column: 2; margin: 6px 0 0; padding: 0; list-style: none; font-size: 12px; color: var(--ink-2); }
.edges li { display: flex; gap: 8px; padding: 1px 0; }
.edges b { flex: none; width: 116px; white-space: nowrap; font-weight: 550; color: var(--ink); }
.edges .cost { margin-left: auto; padding-left: 12px; white-space: nowrap; color: var(--ink-3); font-variant-numeric: tabular-nums; }
.hand { display: grid; grid-template-columns: 92px minmax(0, 1fr); column-gap: 14px; margin: 8px 0 10px; font-size: 12px; color: var(--ink-2); }
.hand span { grid-column: 2; display: flex; align-items: center; gap: 10px; }
.hand svg { flex: none; color: var(--ink-3); }
.hand .rule { flex: 1; border-top: 1px dashed var(--line-strong); }
aside.detail { position: sticky; top: 16px; max-height: calc(100vh - 32px); overflow: auto; background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 18px 20px 20px; }
aside h2 { margin: 0; font-size: 18px; letter-spacing: -0.01em; }
aside h3 { margin: 20px 0 6px; font-size: 12px; font-weight: 600; color: var(--ink-3); }
aside p { margin: 2px 0 0; color: var(--ink-2); }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
td, th { text-align: left; font-weight: 400; padding: 3px 0; border-bottom: 1px solid var(--line); vertical-align: baseline; }
tr:last-child > * { border-bottom: 0; }
td:last-child { text-align: right; }
th { color: var(--ink-2); } th i { display: inline-block; width: 8px; height: 8px; border-radius: 2px; margin-right: 7px; }
details { border-top: 1px solid var(--line); } details:last-of-type { border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: 6px 0; display: flex; gap: 8px; justify-content: space-between; font-size: 13px; list-style-position: inside; }
summary .num { color: var(--ink-3); white-space: nowrap; font-size: 12px; }
code { font: 12px/1.45 ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, monospace; overflow-wrap: anywhere; }
.param { padding: 6px 0 8px 12px; border-left: 2px solid var(--line); margin: 0 0 6px 2px; }
.param > code { font-weight: 600; } .param .arrow { color: var(--ink-3); }
.param .shape { color: var(--ink-2); font-size: 12px; font-variant-numeric: tabular-nums; }
.param .from { font-size: 12px; color: var(--ink-2); margin-top: 2px; font-variant-numeric: tabular-nums; }
.param .from code { color: var(--ink); }
section.below { padding: 4px 32px 44px; max-width: 1180px; }
section.below h2 { font-size: 18px; letter-spacing: -0.01em; margin: 12px 0 10px; }
.account td { font-variant-numeric: tabular-nums; text-align: right; width: 22%; } .account .total > * { font-weight: 600; border-top: 1px solid var(--line-strong); }
.kind { margin: 0 0 18px; } .kind h3 { margin: 0 0 4px; font-size: 14px; font-weight: 600; } .kind h3 small { font-weight: 400; color: var(--ink-3); }
.kind th { width: 170px; } .kind td { text-align: left; } .kind td:last-child { text-align: right; white-space: nowrap; padding-left: 16px; color: var(--ink-2); }
@media print { main { display: block; } aside.detail { display: none; } }
)css";

const char* const kInspectBody = R"html(<header>
<h1 id="title"></h1>
<p class="sub" id="subtitle"></p>
<dl class="facts" id="facts"></dl>
</header>
<main>
<div>
<div class="legend" id="legend"></div>
<div id="map"></div>
</div>
<aside class="detail" id="detail" aria-live="polite"></aside>
</main>
<section class="below" id="boundaries"><h2>Layer boundaries</h2></section>
<section class="below" id="account"><h2>What the ranks hold</h2></section>
<noscript>This page draws the plan with a script, which is switched off.</noscript>
)html";

}  // namespace lamina
