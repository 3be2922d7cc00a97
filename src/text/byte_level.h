#pragma once
// The byte-level alphabet of GPT-2 (encoder.py, bytes_to_unicode): one visible character for each byte. Printable Latin-1 bytes stand for
// themselves, the other 68, in order, for U+0100 and on; so a space is written U+0120.

#include <string>
#include <string_view>

namespace lamina::text {

/// Appends the character of each byte.
void append_spelled_bytes(std::string& out, std::string_view bytes);
/// Appends the bytes that `spelled` (valid UTF-8) stands for; when some character is not of the alphabet, `spelled` itself.
void append_unspelled_bytes(std::string& out, std::string_view spelled);

}  // namespace lamina::text
