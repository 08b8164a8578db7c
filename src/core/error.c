/* SPDX-License-Identifier: MIT */
/* The error domain, and text from files made safe to print. */
#include "config.h"

#include "src/core/error.h"

#include <string.h>

/**
 * sluice_error_quark:
 *
 * Returns: the domain of every error that the library sets
 * Since: 0.1
 */
GQuark
sluice_error_quark(void)
{
    return g_quark_from_static_string("sluice-error-quark");
}

/**
 * sluice_error_printable:
 * @bytes: text that came from a file or a user, in any encoding
 * @n_bytes: its length, or -1 if it is terminated by NUL
 *
 * Makes text fit for a message or a terminal: control characters and bytes that are not UTF-8
 * become `\xHH`, and more than 200 bytes are cut with `...`. Keys, names and token texts of a
 * model file may hold escape sequences that would otherwise reach the terminal.
 *
 * Returns: (transfer full): printable UTF-8
 * Since: 0.1
 */
char *
sluice_error_printable(const char *bytes, gssize n_bytes)
{
    enum { MAX_BYTES = 200 };
    gsize n = n_bytes < 0 ? strlen(bytes) : (gsize) n_bytes;
    gboolean is_cut = n > MAX_BYTES;
    const char *p = bytes;
    const char *end = bytes + (is_cut ? MAX_BYTES : n);
    GString *out = g_string_sized_new(n + 8);

    while (p < end) {
        gunichar c = g_utf8_get_char_validated(p, end - p);
        if (c == (gunichar) -1 || c == (gunichar) -2 || g_unichar_iscntrl(c)) {
            g_string_append_printf(out, "\\x%02X", (guchar) *p);
            p++;
            continue;
        }
        g_string_append_unichar(out, c);
        p = g_utf8_next_char(p);
    }
    if (is_cut)
        g_string_append(out, "...");
    return g_string_free(out, FALSE);
}
