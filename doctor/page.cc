#include "doctor/page.h"

#include <fmt/format.h>

#include <cmath>

#include "doctor/escape.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr size_t kWidth = 96;
constexpr size_t kMaxProblems = 8;

// Lines of at most kWidth, the first behind `label`, the others below it.
std::string paragraph(std::string_view label, std::string_view text, const std::string& styled_label = "") {
  std::string out = styled_label.empty() ? std::string(label) : styled_label;
  const std::string indent(label.size(), ' ');
  size_t column = label.size();
  bool first = true;
  const std::string clean = clean_text(text);
  for (const auto word : words_of(clean)) {
    if (!first && column + 1 + word.size() > kWidth) {
      out += "\n" + indent;
      column = indent.size();
      first = true;
    }
    if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  return out + "\n";
}

std::string number(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return fmt::format("{:.0f}", value);
  const bool large = std::fabs(value) >= 1000 && std::fabs(value) < 1e15;
  return large ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string place(const std::string& file, const std::string& source, uint32_t line) {
  std::string out = file;
  if (!source.empty()) out += " [" + source + "]";
  if (line > 0) out += ":" + std::to_string(line);
  return out;
}

std::string proof_line(const Proof& proof) {
  std::string subject = proof.host == "the host" ? "" : proof.host;
  if (!proof.port.empty()) subject += (subject.empty() ? "" : " ") + proof.port;
  std::string out = fmt::format("    {}{}{} ", subject, subject.empty() ? "" : "  ", proof.counter);
  out += proof.delta ? number(*proof.delta) : proof.text;
  if (proof.threshold) out += fmt::format("  (limit {})", number(*proof.threshold));
  if (!proof.file.empty()) out += "  " + place(proof.file, proof.source, proof.line);
  return clean_text(out) + "\n";
}

std::string finding_text(const Finding& finding, const Styler& styler) {
  std::string out;
  for (const Proof& proof : finding.evidence) out += proof_line(proof);
  for (const auto& reason : finding.lowered_because) out += paragraph("  not surer, because  ", reason);
  out += paragraph("  next check  ", finding.next_check, styler(Ink::kBold, "  next check  "));
  out += paragraph("  fix         ", finding.fix, styler(Ink::kBold, "  fix         "));
  out += paragraph("  source      ", finding.source, styler(Ink::kDim, "  source      "));
  return out;
}

std::string head(const Diagnosis& diagnosis, const Styler& styler) {
  const char* word = "FINDING";
  Ink ink = Ink::kBad;
  switch (diagnosis.outcome) {
    case Outcome::kHealthy:
      word = "HEALTHY";
      ink = Ink::kGood;
      break;
    case Outcome::kFinding:
      break;
    case Outcome::kInsufficient:
      word = "INSUFFICIENT EVIDENCE";
      ink = Ink::kBold;
      break;
    case Outcome::kInvalid:
      word = "INVALID TEST";
      break;
  }
  const std::string label = std::string(word) + "  ";
  std::string out = paragraph(label, diagnosis.sentence, styler(ink, word) + "  ");
  out += fmt::format("  layer {}, confidence {}, rule {}\n", to_string(diagnosis.layer),
                     to_string(diagnosis.confidence), diagnosis.rule);
  return out;
}

// A snapshot always lacks something (no GPU, no DCB): those sources are counted, not listed.
std::string problems_text(const Diagnosis& diagnosis, const Styler& styler) {
  std::string list;
  size_t listed = 0, not_collected = 0;
  for (const NamedProblem& problem : diagnosis.problems) {
    if (problem.reason.starts_with("not collected: ")) {
      ++not_collected;
      continue;
    }
    if (++listed <= kMaxProblems)
      list += paragraph("  - ", place(problem.file, problem.source, problem.line) + ": " + problem.reason);
  }
  if (listed > kMaxProblems)
    list += fmt::format("  - and {} more (--json lists them)\n", listed - kMaxProblems);
  if (not_collected > 0)
    list += fmt::format("  - {} sources could not be collected (--json lists them)\n", not_collected);
  return list.empty() ? list : "\n" + styler(Ink::kBold, "Problems of the input") + "\n" + list;
}

}  // namespace

std::string page_of(const Diagnosis& diagnosis, const Styler& styler) {
  std::string out = head(diagnosis, styler);
  size_t next = 0;
  if (!diagnosis.findings.empty() && diagnosis.findings.front().rule == diagnosis.rule) {
    out += "\n" + finding_text(diagnosis.findings.front(), styler);
    next = 1;
  }
  if (next < diagnosis.findings.size()) out += "\n" + styler(Ink::kBold, "Also found") + "\n";
  for (; next < diagnosis.findings.size(); ++next) {
    const Finding& finding = diagnosis.findings[next];
    out += paragraph("  - ", finding.sentence);
    out += fmt::format("    layer {}, confidence {}, rule {}{}\n", to_string(finding.layer),
                       to_string(finding.confidence), finding.rule,
                       finding.outranked_by.empty() ? "" : "; follows from " + finding.outranked_by);
    for (const Proof& proof : finding.evidence) out += proof_line(proof);
  }
  if (!diagnosis.missing.empty()) out += "\n" + styler(Ink::kBold, "To collect") + "\n";
  for (const auto& missing : diagnosis.missing) out += paragraph("  - ", missing);
  out += problems_text(diagnosis, styler);
  out += "\n" +
         styler(Ink::kDim,
                fmt::format("Read: {} host(s), {} port(s), {} counter(s), {} result(s).", diagnosis.hosts,
                            diagnosis.ports, diagnosis.counters, diagnosis.results)) +
         "\n";
  return out;
}

std::string explain(const Rule& rule, const Rulebook& book) {
  std::string out = fmt::format("{} (rule {}, {}): layer {}, confidence at most {}\n\n", rule.id, rule.number,
                                rule.stage, to_string(rule.layer), to_string(rule.confidence));
  out += paragraph("  says        ", rule.sentence);
  out += paragraph("  when        ", rule.when_text);
  for (const std::string& name : rule.when.names()) {
    if (!name.starts_with("limit.")) continue;
    const Threshold& threshold = book.thresholds.find(name.substr(6))->second;
    out += paragraph("    ", fmt::format("{} = {} {}: {} ({})", name, number(threshold.value), threshold.unit,
                                         threshold.sentence, threshold.source));
  }
  for (const auto& lower : rule.lower)
    out += paragraph("  less sure   ", fmt::format("{}: {}", to_string(lower.to), lower.because));
  for (const auto& need : rule.needs) out += paragraph("  needs       ", book.needs.at(need));
  for (const auto& other : rule.outranks) out += paragraph("  outranks    ", other);
  out += paragraph("  next check  ", rule.next_check);
  out += paragraph("  fix         ", rule.fix);
  out += paragraph("  source      ", rule.source);
  return out;
}

}  // namespace mroce::doctor
