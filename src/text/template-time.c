/* SPDX-License-Identifier: MIT */
/*
 * strftime_now(): what Python's datetime.now().strftime() prints, in English whatever the locale,
 * for the prompt must not depend on it.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <string.h>

static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
static const char *const days[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                   "Friday", "Saturday", "Sunday"};

/* A number of @width digits; @pad '-' means no padding. */
static void
add_number(SluiceTplBuilder *b, int value, int width, char pad)
{
    char text[16];

    if (pad == '-')
        g_snprintf(text, sizeof text, "%d", value);
    else if (pad == '_' || pad == ' ')
        g_snprintf(text, sizeof text, "%*d", width, value);
    else
        g_snprintf(text, sizeof text, "%0*d", width, value);
    sluice_tpl_builder_literal(b, text);
}

static void
add_name(SluiceTplBuilder *b, const char *name, bool is_short, char flag)
{
    g_autofree char *text = g_strndup(name, is_short ? 3 : strlen(name));

    if (flag == '^')
        for (char *p = text; *p; p++)
            *p = g_ascii_toupper(*p);
    sluice_tpl_builder_literal(b, text);
}

/* The week of the year; @first is the day it begins with, 0 for Sunday. */
static int
week_of_year(GDateTime *now, int first)
{
    int weekday = g_date_time_get_day_of_week(now) % 7; /* 0 for Sunday */

    return (g_date_time_get_day_of_year(now) + 6 - (weekday + 7 - first) % 7) / 7;
}

static void add_field(SluiceTplBuilder *b, GDateTime *now, char code, char flag);

static void
add_fields(SluiceTplBuilder *b, GDateTime *now, const char *format)
{
    for (const char *p = format; *p; p++) {
        if (*p == '%')
            add_field(b, now, *++p, '\0');
        else
            sluice_tpl_builder_bytes(b, p, 1, false);
    }
}

static void
add_field(SluiceTplBuilder *b, GDateTime *now, char code, char flag)
{
    int hour = g_date_time_get_hour(now);
    int year = g_date_time_get_year(now);
    char text[32];

    switch (code) {
    case 'a':
    case 'A':
        add_name(b, days[g_date_time_get_day_of_week(now) - 1], code == 'a', flag);
        break;
    case 'b':
    case 'h':
    case 'B':
        add_name(b, months[g_date_time_get_month(now) - 1], code != 'B', flag);
        break;
    case 'c':
        add_fields(b, now, "%a %b %e %H:%M:%S %Y");
        break;
    case 'C':
        add_number(b, year / 100, 2, flag);
        break;
    case 'd':
        add_number(b, g_date_time_get_day_of_month(now), 2, flag);
        break;
    case 'D':
    case 'x':
        add_fields(b, now, "%m/%d/%y");
        break;
    case 'e':
        add_number(b, g_date_time_get_day_of_month(now), 2, flag ? flag : '_');
        break;
    case 'f':
        add_number(b, g_date_time_get_microsecond(now), 6, '\0');
        break;
    case 'F':
        add_fields(b, now, "%Y-%m-%d");
        break;
    case 'g':
        add_number(b, g_date_time_get_week_numbering_year(now) % 100, 2, flag);
        break;
    case 'G':
        add_number(b, g_date_time_get_week_numbering_year(now), 4, flag);
        break;
    case 'H':
        add_number(b, hour, 2, flag);
        break;
    case 'I':
        add_number(b, hour % 12 == 0 ? 12 : hour % 12, 2, flag);
        break;
    case 'j':
        add_number(b, g_date_time_get_day_of_year(now), 3, flag);
        break;
    case 'k':
        add_number(b, hour, 2, flag ? flag : '_');
        break;
    case 'l':
        add_number(b, hour % 12 == 0 ? 12 : hour % 12, 2, flag ? flag : '_');
        break;
    case 'm':
        add_number(b, g_date_time_get_month(now), 2, flag);
        break;
    case 'M':
        add_number(b, g_date_time_get_minute(now), 2, flag);
        break;
    case 'n':
        sluice_tpl_builder_literal(b, "\n");
        break;
    case 'p':
        sluice_tpl_builder_literal(b, hour < 12 ? "AM" : "PM");
        break;
    case 'P':
        sluice_tpl_builder_literal(b, hour < 12 ? "am" : "pm");
        break;
    case 'r':
        add_fields(b, now, "%I:%M:%S %p");
        break;
    case 'R':
        add_fields(b, now, "%H:%M");
        break;
    case 's':
        g_snprintf(text, sizeof text, "%" G_GINT64_FORMAT, g_date_time_to_unix(now));
        sluice_tpl_builder_literal(b, text);
        break;
    case 'S':
        add_number(b, g_date_time_get_second(now), 2, flag);
        break;
    case 't':
        sluice_tpl_builder_literal(b, "\t");
        break;
    case 'T':
    case 'X':
        add_fields(b, now, "%H:%M:%S");
        break;
    case 'u':
        add_number(b, g_date_time_get_day_of_week(now), 1, flag);
        break;
    case 'U':
        add_number(b, week_of_year(now, 0), 2, flag);
        break;
    case 'V':
        add_number(b, g_date_time_get_week_of_year(now), 2, flag);
        break;
    case 'w':
        add_number(b, g_date_time_get_day_of_week(now) % 7, 1, flag);
        break;
    case 'W':
        add_number(b, week_of_year(now, 1), 2, flag);
        break;
    case 'y':
        add_number(b, year % 100, 2, flag);
        break;
    case 'Y':
        add_number(b, year, flag == '0' ? 4 : 1, flag);
        break;
    case 'z':
    case 'Z':
        /* datetime.now() knows no zone, and prints none. */
        break;
    case '%':
        sluice_tpl_builder_literal(b, "%");
        break;
    default:
        g_assert_not_reached();
    }
}

/* The letters of add_field(). */
static const char codes[] = "aAbBcCdDeFfgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%";

bool
sluice_tpl_strftime(SluiceTplEval *ev, const SluiceTplString *format, SluiceTplValue *out)
{
    g_autoptr(GDateTime) present = NULL;
    GDateTime *now = ev->limits.now;
    SluiceTplBuilder b;

    if (!now)
        now = present = g_date_time_new_now_local();
    if (!now)
        return sluice_tpl_fail(ev, "strftime_now: the local time is not known");
    sluice_tpl_builder_init(&b, &ev->arena);
    for (gsize i = 0; i < format->n; i++) {
        gsize field = i + 1;
        char flag = '\0';

        if (format->data[i] == '%' && field < format->n && format->data[field] &&
            strchr("-_0^", format->data[field]))
            flag = format->data[field++];
        if (format->data[i] == '%' && field < format->n && format->data[field] &&
            strchr(codes, format->data[field])) {
            add_field(&b, now, format->data[field], flag);
            i = field;
        } else {
            sluice_tpl_builder_slice(&b, format, i, 1);
        }
    }
    return sluice_tpl_string_end(ev, &b, out);
}
