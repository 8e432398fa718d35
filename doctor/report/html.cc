#include "doctor/report/html.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "doctor/escape.h"
#include "doctor/report/chart.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxFindings = 100, kMaxProofs = 40, kMaxReasons = 40, kMaxMissing = 200, kMaxProblems = 100,
                 kMaxNames = 60;

// "1,234,567" of whole numbers; four digits of others.
std::string number(double value) {
  if (std::fabs(value) >= 1e15) return fmt::format("{:.4g}", value);
  if (value != std::floor(value)) {
    if (std::fabs(value) < 1000) return fmt::format("{:.4g}", value);
    value = std::round(value);
  }
  std::string digits = fmt::format("{:.0f}", std::fabs(value));
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return (value < 0 ? "-" : "") + digits;
}

std::string place(const std::string& file, const std::string& source, uint32_t line) {
  std::string out = file;
  if (!source.empty()) out += (out.empty() ? "" : " ") + ("[" + source + "]");
  if (line > 0) out += ":" + std::to_string(line);
  return html_text(out, 600);
}

std::string chip(std::string_view name, std::string_view value) {
  return fmt::format("<li>{} <b>{}</b></li>", html_text(name), html_text(value, 200));
}

std::string row(std::string_view name, std::string_view text) {
  if (text.empty()) return "";
  return fmt::format("<dt>{}</dt><dd>{}</dd>", html_text(name), html_text(text));
}

std::string_view word_of(Severity severity) {
  switch (severity) {
    case Severity::kInvalid:
      return "invalid test";
    case Severity::kFault:
      return "fault";
    case Severity::kWarning:
      return "may matter";
    case Severity::kNormal:
      return "normal, though it looks alarming";
  }
  return "";
}

std::string proof_row(const Proof& proof) {
  const std::string value = proof.delta ? number(*proof.delta) : "";
  return fmt::format(
      "<tr><td class=\"w\">{}</td><td class=\"w\">{}</td><td class=\"w mono\">{}</td><td "
      "class=\"n\">{}</td><td class=\"n\">{}</td>"
      "<td class=\"mono soft where\">{}</td></tr>",
      html_text(proof.host, 200), html_text(proof.port, 200), html_text(proof.counter, 200),
      value.empty() ? html_text(proof.text, 400) : value, proof.threshold ? number(*proof.threshold) : "",
      place(proof.file, proof.source, proof.line));
}

std::string proofs_of(const Finding& finding) {
  if (finding.evidence.empty()) return "";
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>Host</th><th>Port</th><th>Reading</th><th "
      "class=\"n\">Change or value</th><th class=\"n\">Limit</th><th>Where it "
      "stands</th></tr></thead><tbody>";
  for (size_t i = 0; i < finding.evidence.size() && i < kMaxProofs; ++i)
    out += proof_row(finding.evidence[i]);
  out += "</tbody></table></div>";
  if (finding.evidence.size() > kMaxProofs)
    out += fmt::format("<p class=\"soft\">and {} more readings</p>", finding.evidence.size() - kMaxProofs);
  return out;
}

std::string details_of(const Finding& finding) {
  std::string out = proofs_of(finding) + "<dl class=\"act\">";
  if (!finding.lowered_because.empty()) {
    out += "<dt>Not surer, because</dt><dd>";
    for (size_t i = 0; i < finding.lowered_because.size() && i < kMaxReasons; ++i)
      out += (i == 0 ? "" : "<br>") + html_text(finding.lowered_because[i]);
    out += "</dd>";
  }
  out += row("Next check", finding.next_check) + row("Fix", finding.fix) + "</dl>";
  return out + "<dl>" + row("Source", finding.source) + row("Follows from", finding.outranked_by) + "</dl>";
}

std::string verdict_of(const Diagnosis& diagnosis) {
  const char *word = "Finding", *look = "bad";
  switch (diagnosis.outcome) {
    case Outcome::kHealthy:
      word = "Healthy";
      look = "good";
      break;
    case Outcome::kFinding:
      break;
    case Outcome::kInsufficient:
      word = "The evidence does not suffice";
      look = "unsure";
      break;
    case Outcome::kInvalid:
      word = "The test itself is invalid";
      look = "unsure";
      break;
  }
  return fmt::format(
      "<section class=\"verdict {}\"><div class=\"word\">{}</div><h1>{}</h1><ul class=\"chips\">{}{}{}</ul>"
      "</section>",
      look, word, html_text(diagnosis.sentence, 2000), chip("layer", to_string(diagnosis.layer)),
      chip("confidence", to_string(diagnosis.confidence)), chip("rule", diagnosis.rule));
}

std::string finding_card(const Finding& finding, bool is_verdict) {
  if (is_verdict) return "<section class=\"card\"><h3>Why</h3>" + details_of(finding) + "</section>";
  return fmt::format(
      "<article class=\"card\"><h3>{}</h3><ul class=\"chips\">{}{}{}<li>{}</li></ul>{}</article>",
      html_text(finding.sentence, 2000), chip("layer", to_string(finding.layer)),
      chip("confidence", to_string(finding.confidence)), chip("rule", finding.rule),
      word_of(finding.severity), details_of(finding));
}

std::string chart_row(const Chart& chart, double seconds, bool last) {
  std::string out =
      fmt::format("<div class=\"chart\"><div><strong>{}</strong> <span class=\"soft\">{}</span>",
                  html_text(chart.title), html_text(chart.unit));
  out += "<ul class=\"key\">";
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    out += fmt::format(
        "<li><svg class=\"s{}\" viewBox=\"0 0 16 8\" width=\"16\" height=\"8\"><path stroke=\"currentColor\" "
        "stroke-width=\"3\" d=\"M0 4H16\"/></svg>{}: peak {}, mean {}</li>",
        series.ink, html_text(series.label, 100), short_number(series.peak), short_number(series.mean));
  }
  return out + "</ul></div>" + svg_of(chart, seconds, last) + "</div>";
}

std::string names(const std::vector<std::string>& list) {
  std::string out;
  for (size_t i = 0; i < list.size() && i < kMaxNames; ++i)
    out += (i == 0 ? "" : ", ") + html_text(list[i], 120);
  if (list.size() > kMaxNames) out += fmt::format(", and {} more", list.size() - kMaxNames);
  return out;
}

std::string utc(int64_t time_ns) {
  const std::time_t seconds = time_ns / 1'000'000'000;
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "";
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts));
}

std::string timeline_section(const Timeline& timeline) {
  std::string out = "<h2>What happened when</h2>";
  if (timeline.groups.empty())
    return out +
           "<p class=\"soft\">These files hold no samples. <code>mroce doctor run -- COMMAND</code> takes "
           "one "
           "each second, and the report then shows pause, CNP, ECN marks, retransmissions, throughput and "
           "GPU "
           "activity on one time axis.</p>";
  out += timeline.own_clocks
             ? "<p class=\"soft\">The clocks of the hosts disagree, or the runs were far apart: each group "
               "begins at its own first sample.</p>"
             : fmt::format("<p class=\"soft\">All charts share one time axis, which begins at {}.</p>",
                           utc(timeline.begin_ns));
  for (const ChartGroup& group : timeline.groups) {
    out += fmt::format("<section class=\"card\"><h3>{} {} <span class=\"soft\">{}</span></h3>",
                       html_text(group.host, 100), html_text(group.port, 100), html_text(group.note, 200));
    for (size_t i = 0; i < group.charts.size(); ++i)
      out += chart_row(group.charts[i], timeline.seconds, i + 1 == group.charts.size());
    if (!group.still.empty())
      out += "<p class=\"soft\">Sampled, and never moved: " + names(group.still) + ".</p>";
    out += "</section>";
  }
  if (!timeline.left_out.empty())
    out += fmt::format("<p class=\"soft\">Sampled, but not drawn: {}.</p>", names(timeline.left_out));
  return out;
}

std::string problem_table(const std::vector<const NamedProblem*>& problems) {
  std::string out = "<div class=\"scroll\"><table><thead><tr><th>Where</th><th>What</th></tr></thead><tbody>";
  for (size_t i = 0; i < problems.size() && i < kMaxProblems; ++i) {
    const NamedProblem& problem = *problems[i];
    out += fmt::format("<tr><td class=\"mono soft\">{}</td><td>{}</td></tr>",
                       place(problem.file, problem.source, problem.line), html_text(problem.reason, 600));
  }
  out += "</tbody></table></div>";
  if (problems.size() > kMaxProblems)
    out += fmt::format("<p class=\"soft\">and {} more; <code>--json</code> lists them all</p>",
                       problems.size() - kMaxProblems);
  return out;
}

// A snapshot always lacks something (no GPU, no DCB): those sources are folded away.
std::string problems_of(const Diagnosis& diagnosis) {
  std::vector<const NamedProblem*> wrong, not_collected;
  for (const NamedProblem& problem : diagnosis.problems)
    (problem.reason.starts_with("not collected: ") ? not_collected : wrong).push_back(&problem);
  std::string out;
  if (!wrong.empty()) out += "<h2>Problems of the input</h2>" + problem_table(wrong);
  if (!not_collected.empty())
    out += fmt::format(
        "<details><summary class=\"soft\">{} sources could not be collected</summary>{}</details>",
        not_collected.size(), problem_table(not_collected));
  return out;
}

std::string lists_of(const Diagnosis& diagnosis) {
  std::string out;
  if (!diagnosis.missing.empty()) out += "<h2>What would make this surer</h2><ul class=\"list\">";
  for (size_t i = 0; i < diagnosis.missing.size() && i < kMaxMissing; ++i)
    out += "<li>" + html_text(diagnosis.missing[i]) + "</li>";
  if (!diagnosis.missing.empty()) out += "</ul>";
  return out + problems_of(diagnosis);
}

std::string head_of(const Diagnosis& diagnosis) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; "
      "base-uri 'none'; form-action 'none'\">\n<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<title>{} – mroce doctor</title>\n<style>{}</style></head>\n<body><main>\n",
      report_style_hash(), html_text(diagnosis.sentence, 90), report_style());
}

}  // namespace

std::string html_of(const Diagnosis& diagnosis, const Timeline& timeline, const ReportAbout& about) {
  std::string out = head_of(diagnosis) + verdict_of(diagnosis);
  size_t next = 0;
  if (!diagnosis.findings.empty() && diagnosis.findings.front().rule == diagnosis.rule)
    out += finding_card(diagnosis.findings[next++], true);
  out += timeline_section(timeline);
  if (next < diagnosis.findings.size()) out += "<h2>Also found</h2>";
  for (; next < diagnosis.findings.size() && next < kMaxFindings; ++next)
    out += finding_card(diagnosis.findings[next], false);
  if (diagnosis.findings.size() > kMaxFindings)
    out +=
        fmt::format("<p class=\"soft\">and {} more findings</p>", diagnosis.findings.size() - kMaxFindings);
  out += lists_of(diagnosis);
  out += fmt::format(
      "<footer>Read: {} host(s), {} port(s), {} counter(s), {} result(s). mroce doctor {}{}{}</footer>\n"
      "</main></body></html>\n",
      diagnosis.hosts, diagnosis.ports, diagnosis.counters, diagnosis.results, html_text(about.version),
      about.written.empty() ? "" : ", written ", html_text(about.written));
  return out;
}

}  // namespace mroce::doctor
