// `lamina inspect --html` as a browser shows it: headless Chromium.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "tests/support/program.h"
#include "tests/support/safetensors_writer.h"

namespace lamina::e2e {
namespace {

using fixture::Outcome;
using fixture::run_lamina;
using fixture::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

bool has_chromium() { return std::system("chromium --version >/dev/null 2>&1") == 0; }

struct Seen {
  std::string out, log;
};

/// What Chromium prints and logs for a file of `folder`.
Seen browse(const TempFolder& folder, const std::string& page, const std::string& flags) {
  const std::string command =
      cat("timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --enable-logging=stderr",
          " --window-size=1500,1000 --user-data-dir=", folder.file("profile"), " ", flags, " 'file://", folder.file(page), "' >",
          folder.file("out"), " 2>", folder.file("log"));
  EXPECT_EQ(std::system(command.c_str()), 0) << command << "\n" << read_file(folder.file("log")).value();
  return {read_file(folder.file("out")).value(), read_file(folder.file("log")).value()};
}

size_t bytes_of_picture(const TempFolder& folder, const std::string& page) {
  browse(folder, page, cat("--screenshot=", folder.file(page + ".png")));
  return read_file(folder.file(page + ".png"))->size();
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// Writes page.html of a config and returns the JSON of the same plan.
Json write_page(const TempFolder& folder, const std::string& config, const std::vector<std::string>& topology) {
  std::vector<std::string> args = {
      "inspect", LAMINA_SOURCE_DIR "/tests/configs/" + config, "--json", "--html", folder.file("page.html"), "--memory-per-rank", "24"};
  args.insert(args.end(), topology.begin(), topology.end());
  const Outcome outcome = run_lamina(args);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return parse_json(outcome.out, "stdout").value();
}

/// The page shows every rank of `plan` once, with its numbers, and `chosen` in the panel.
void expect_shows(const Json& plan, const Seen& seen, int chosen) {
  EXPECT_THAT(seen.log, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(seen.out, HasSubstr("data-ready=\"true\""));
  const Json::Array& ranks = plan.find("rank_table")->as_array();
  EXPECT_EQ(count_of(seen.out, "class=\"tile\""), ranks.size());
  for (const Json& rank : ranks) {
    const Json& memory = *rank.find("memory");
    EXPECT_EQ(
        count_of(seen.out, cat("data-rank=\"", rank.find("rank")->as_integer(), "\" data-weights=\"", memory.find("weights")->as_integer(),
                               "\" data-kv=\"", memory.find("kv_bytes_per_token")->as_integer(), "\"")),
        1U);
  }
  EXPECT_EQ(count_of(seen.out, "<h2>Stage "), plan.find("pipeline")->as_array().size());
  EXPECT_EQ(count_of(seen.out, "<div class=\"hand\">"), plan.find("pipeline")->as_array().size() - 1);
  EXPECT_THAT(seen.out, HasSubstr(cat("<h2>Rank ", chosen, "</h2>")));
}

TEST(InspectPage, NeedsNoNetworkAndNoLibrary) {
  const TempFolder folder;
  write_page(folder, "llama-3.2-1b", {"--tp", "2"});
  const std::string page = read_file(folder.file("page.html")).value();
  for (const char* reference : {"http:", "https:", "src=", "@import", "url(", "<link"}) EXPECT_THAT(page, Not(HasSubstr(reference)));
}

TEST(InspectPage, ShowsATileOfEachOf128RanksAndTheParametersOfTheChosenOne) {
  if (!has_chromium()) GTEST_SKIP() << "chromium is not installed";
  const TempFolder folder;
  const Json plan = write_page(folder, "llama-3.1-405b", {"--tp", "8", "--pp", "16"});
  const Seen seen = browse(folder, "page.html#rank=13", "--dump-dom");
  expect_shows(plan, seen, 13);
  // tp rank 5 of stage 1: heads 80 to 95 of 128 x 128 columns
  EXPECT_THAT(seen.out, AllOf(HasSubstr("model.layers.7"), HasSubstr("self_attn.q_proj.weight"), HasSubstr("rows 10,240–12,287 of 16,384"),
                              HasSubstr("columns 33,280–39,935 of 53,248")));
}

TEST(InspectPage, IsAPictureAndReportsScriptErrors) {
  if (!has_chromium()) GTEST_SKIP() << "chromium is not installed";
  const TempFolder folder;
  const Json plan = write_page(folder, "llama-3.2-1b", {"--tp", "2", "--pp", "2"});
  expect_shows(plan, browse(folder, "page.html", "--dump-dom"), 0);
  folder.write("blank.html", "<!doctype html><title>blank</title><script>missing();</script>");
  EXPECT_THAT(browse(folder, "blank.html", "--dump-dom").log, HasSubstr("CONSOLE"));  // so the absence of it above means something
  EXPECT_GT(bytes_of_picture(folder, "page.html"), 5 * bytes_of_picture(folder, "blank.html"));
}

}  // namespace
}  // namespace lamina::e2e
