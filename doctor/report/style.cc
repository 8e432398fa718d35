#include "doctor/report/html.h"

namespace mroce::doctor {

std::string_view report_style() {
  return R"css(
:root{color-scheme:light dark;--ground:#f6f7f9;--card:#fff;--ink:#1b2330;--soft:#5b6675;--rule:#dde2e8;
--good:#14713d;--goodback:#e5f4ea;--bad:#b3261e;--badback:#fdeceb;--unsure:#8a5a00;--unsureback:#fdf3dd;
--c0:#1f6feb;--c1:#d9480f;--c2:#2b8a3e;--c3:#9c36b5;--c4:#b08900;--c5:#0b7285;--c6:#c2255c;--c7:#5f6b7a}
@media (prefers-color-scheme:dark){:root{--ground:#10141a;--card:#191f27;--ink:#e4e9f0;--soft:#98a4b3;--rule:#2c3541;
--good:#6bd58f;--goodback:#15301f;--bad:#ff8a80;--badback:#3a1b1a;--unsure:#f0c060;--unsureback:#352a12;
--c0:#6cb0ff;--c1:#ff9a5c;--c2:#6fd68a;--c3:#d79bf0;--c4:#e6c84f;--c5:#4fc3d9;--c6:#ff8fb6;--c7:#a9b4c2}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:24px 20px 48px}
h1{font-size:24px;line-height:1.35;margin:6px 0 12px;font-weight:650;overflow-wrap:anywhere}
h2{font-size:18px;margin:36px 0 10px}
h3{font-size:16px;margin:0 0 8px;line-height:1.4;overflow-wrap:anywhere}
h4{font-size:15px;margin:22px 0 6px}
p{margin:6px 0}
.word{font-size:13px;font-weight:700;letter-spacing:.08em}
.verdict{border:1px solid var(--rule);border-left:6px solid var(--unsure);border-radius:8px;padding:18px 22px;background:var(--unsureback)}
.verdict .word{color:var(--unsure)}
.verdict.good{border-left-color:var(--good);background:var(--goodback)}.verdict.good .word{color:var(--good)}
.verdict.bad{border-left-color:var(--bad);background:var(--badback)}.verdict.bad .word{color:var(--bad)}
.chips{display:flex;flex-wrap:wrap;gap:6px 8px;margin:0;padding:0;list-style:none;font-size:13px}
.chips li{border:1px solid var(--rule);border-radius:99px;padding:1px 10px;background:var(--card);color:var(--soft)}
.chips b{color:var(--ink);font-weight:600}
.card{border:1px solid var(--rule);border-radius:8px;background:var(--card);padding:16px 20px;margin:12px 0}
dl{display:grid;grid-template-columns:8.5em minmax(0,1fr);gap:6px 16px;margin:12px 0 0}
dt{font-weight:600;color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.act dt{color:var(--ink)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px;margin:10px 0 0}
th{text-align:left;color:var(--soft);font-weight:600;font-size:13px}
th,td{padding:5px 14px 5px 0;border-bottom:1px solid var(--rule);vertical-align:top}
td{overflow-wrap:anywhere}.w{white-space:nowrap}.where{min-width:22em}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
code,.mono{font:13px ui-monospace,"DejaVu Sans Mono",monospace}
.soft{color:var(--soft);font-size:13.5px}
.chart{display:grid;grid-template-columns:250px minmax(0,1fr);gap:4px 14px;padding:6px 0;border-top:1px solid var(--rule)}
.chart svg{width:100%;height:auto;display:block}
.chart strong{font-weight:600}
.key{list-style:none;margin:3px 0 0;padding:0;font-size:13px;color:var(--soft)}
.key svg{display:inline-block;width:16px;height:8px;margin-right:6px}
svg text{fill:var(--soft);font-family:inherit}
.grid{stroke:var(--rule)}
.line{stroke:currentColor;stroke-width:1.6;stroke-linejoin:round}
.area{fill:currentColor;fill-opacity:.12}
.s0{color:var(--c0)}.s1{color:var(--c1)}.s2{color:var(--c2)}.s3{color:var(--c3)}
.s4{color:var(--c4)}.s5{color:var(--c5)}.s6{color:var(--c6)}.s7{color:var(--c7)}
ul.list{margin:6px 0;padding-left:20px}ul.list li{margin:3px 0;overflow-wrap:anywhere}
footer{margin-top:36px;color:var(--soft);font-size:13px}
@media (max-width:760px){.chart{grid-template-columns:minmax(0,1fr)}dl{grid-template-columns:minmax(0,1fr);gap:2px}dd{margin-bottom:8px}}
@media print{body{background:#fff}.card,.chart{break-inside:avoid}}
)css";
}

std::string_view report_style_hash() {
  return "CrEb9KEBq1Te7pSm4yxgV2EsVAm/aIaxhI8eIBYpr/s=";
}

}  // namespace mroce::doctor
