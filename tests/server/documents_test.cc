// docs/API.md lists what the code reads.

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "base/file.h"
#include "base/strings.h"

namespace lamina::server_test {
namespace {

TEST(Documents, ApiListsEveryFieldPathAndMetric) {
  const std::string document = *read_file(LAMINA_SOURCE_DIR "/docs/API.md");
  const std::regex name(R"rx([{(]"(/?[a-z][a-z_0-9/]+)",)rx"), path(R"rx(\{kG?[a-zA-Z]+, "([^"]+)")rx");
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator(LAMINA_SOURCE_DIR "/src/server")) {
    const std::string text = *read_file(file.path());
    for (const std::regex& pattern : {name, path}) {
      for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
        const std::string word = (*match)[1];
        const bool is_output = text.compare(static_cast<size_t>(match->position()) - 4, 4, ".set") == 0;
        if (is_output) continue;
        EXPECT_NE(document.find(word), std::string::npos) << word << " of " << file.path();
        ++found;
      }
    }
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace lamina::server_test
