#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/template-golden.json: templates and what jinja2 makes of them.

    make_template_golden.py > tests/data/template-golden.json

A case is [template, variables, text], or [template, variables, null] where jinja2 fails. The
templates are our own; the large ones use the constructs of the templates people meet.
"""
import json
import pathlib
import sys

import jinja_reference as reference

V = {
    "s": "Hello, World", "u": "Zürich ǆ 你好 🙂", "blank": "  \t two words \n", "empty": "",
    "html": "<a href=\"x\">'&'</a>", "n": 7, "m": -7, "z": 0, "f": 2.5, "big": 9007199254740993,
    "t": True, "no": False, "nil": None, "l": [3, 1, 2], "words": ["b", "A", "c", "a"],
    "d": {"b": 1, "a": {"x": [10, 20]}, "items": "key", "10": "ten"}, "e": [], "ed": {},
    "people": [{"name": "Zoe", "age": 30, "at": {"c": "B"}}, {"name": "adam", "age": 25, "at": {"c": "a"}},
               {"name": "Bob", "age": 30, "at": {"c": "b"}}, {"name": "bob", "age": None}],
    "lines": "one\ntwo\n\nthree\r\nfour", "nested": [[1, [2, "x"]], {"k": None}],
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U <|x|>"},
                 {"role": "assistant", "content": "A"}],
}

EXPRESSIONS = """
1 + 2 * 3|1 - 2 - 3|2 ** 3 ** 2|-2 ** 2|7 // 2|-7 // 2|7 % 3|-7 % 3|7 % -3|-7 % -3|7 / 2|6 / 3|1 / 3|7.5 // 2|-7.5 // 2|7.5 % 2|-7.5 % 2|7.5 % -2
2 ** -1|2 ** 0.5|0.1 + 0.2|1e16|1e15|123456789012345678.0|1e-4|1e-5|1.5e300 * 1e10|1e400|-0.0|100.0|1_000|0x1F|0o17|0b101|1.0e5|3.14e-10|5e-324
true + true|true * 3|-true|+false|true / 2|true == 1|1 == 1.0|1 in [1.0]|'a' < 'b'|'a' < 'B'|[1, 2] < [1, 3]|(1, 2) == (1, 2)|[1] == (1,)|none == false|1 < 2 < 3|1 < 3 < 2|3 > 2 > 1|1 != 2|1 <= 1.0|big + 0.0 == big
1 / 0|1 // 0|1 % 0|1.0 / 0|1 + 'a'|'a' + 1|[1] + (2,)|none + 1|1 < 'a'|none < 1|[] < 1|-'a'|'a' * 'b'|'ab' - 'a'|n.x.y|missing + 1|missing.x|missing['x']|missing()|missing < 1|-missing|n()|'a'()|s[missing]|l['x']
'a' ~ 1 ~ none ~ true ~ 2.5|'a' ~ missing ~ 'b'|'ab' * 3|3 * 'ab'|'ab' * -1|[1] * 2|(1,) * 2|[1] + [2]|(1,) + (2,)|'a' 'b' "c"|'a\\nb\\t\\x41\\u00e9\\101\\q\\'"'|"\\"q\\" '"|'\\\\n'
not true|not 0|not ''|not not 'a'|1 and 2|0 and 2|1 or 2|0 or ''|missing or 'd'|missing and 1|not missing|true and not false|1 if true else 2|1 if false else 2|1 if false|'a' if missing else 'b'|1 if true else 2 if true else 3|(1 if false) is defined|(1 if false).x
'a' in 'abc'|'' in ''|'d' not in 'abc'|1 in [1, 2]|1 in l|9 in l|'b' in d|'zz' in d|'x' in missing|missing in [1]|missing in 'a'|1 in 'a'|1 in 5|[1] in [[1]]|[1] in d|none in [none]|'a' in ('a', 'b')|3 in range(5)|2.0 in range(5)|9 not in range(5)|1 in none
l[0]|l[-1]|l[9]|l[9] is defined|l[0:2]|l[::-1]|l[::2]|l[-2:]|l[5:]|l[:-1]|l[1:1]|l[2:0:-1]|l[:]|l[::0]|s[0]|s[-1]|s[99]|s[::-1]|s[7:]|s[:5]|s[1:-1:2]|u[0:3]|u[-1]|u[::-1]|u[1]|range(5)[1:3]|range(10)[::3] | list|range(5)[-1]|(1, 2, 3)[1:]|d[1:]|l['a':]|l[none:2]|l[true]|l[:9999999999]
d.b|d['b']|d.a.x[1]|d.a['x'].0|d.items|d['items']|d.items() | list|d.keys() | list|d.values() | list|d.zz|d.zz is defined|d['zz'] is defined|d.get('b')|d.get('zz')|d.get('zz', 4)|d.get|d['10']|d[10]|d.items()|d.keys()|d.values()|d.keys()[0]|d.items() | length|d.pop('b')|d.update({})|l.append(1)|l.sort()|d.a.x.append|d.__class__|d.__class__ is defined|d.__class__.x|s.__len__()|s.foo|s.upper|none.x|n.x is undefined|{}['a'] is defined|{'a': 1}.a|{1: 2}[1]|{1: 2}[1.0]|{true: 'x'}[1]|{none: 1}|{(1, 2): 3}[(1, 2)]|{[1]: 2}|{'a': 1, 'a': 2}|{'a': 1,}|[1, 2,]|(1,)|()|[]|{}
[1, 'a', none, true, 2.0, [], {}, ()]|['it\\'s', "q\\"", '\\n', 'é', '\\\\']|{'k': 'v', 1: [2]}|nested|['\\x07', '\\u200b', '\\xa0', '🙂']|['both \\' and "']|[missing]|range(3)|range(0, 10, 3)|none|true|1.0|namespace(a=1)|namespace(a=1).a|namespace(a=1).b|namespace(_a=1)|namespace({'q': 2}).q|dict(a=1, b=2)|dict([('a', 1)])|dict({'x': 1}, y=2)|dict(1)
range(3) | list|range(1, 4) | list|range(5, 0, -2) | list|range(0)|range(3) | length|range(100000) | length|range(100001)|range(1000000000)|range(1, 2, 0)|range('a')|range()|range(1.5)|range(-5) | list|range(true) | list
s.upper()|s.lower()|u.upper()|u.lower()|'ß'.upper()|s.title()|"they're bill's".title()|s.capitalize()|'ÀB'.capitalize()|s.swapcase()|'Straße'.casefold()|blank.strip()|blank.lstrip()|blank.rstrip()|'xxhixx'.strip('x')|'abchicba'.strip('abc')|'xyhi'.lstrip('yx')|'hi..'.rstrip('.')|'\\u3000a\\xa0'.strip()|'a'.strip(none)|'a'.strip(1)
'a,b,,c'.split(',')|'a,b,c'.split(',', 1)|'  a  b c '.split()|'  a  b c '.split(none, 1)|' a b '.split(' ')|'a--b--c'.split('--')|'abc'.split('')|''.split(',')|''.split()|'a,b,c'.rsplit(',', 1)|' a b  c '.rsplit(none, 1)|' a b  c '.rsplit()|'a,b,c'.rsplit(',')|'a'.split(sep=',', maxsplit=2)|lines.splitlines()|lines.splitlines(true)|'a\\x0bb\\x1cc\\x85d\\u2028e'.splitlines()|''.splitlines()|'a.b.c'.partition('.')|'a.b.c'.rpartition('.')|'abc'.partition('.')|'abc'.rpartition('.')
'x</think>y'.split('</think>')[-1].lstrip('\\n')|'abc'.startswith('a')|'abc'.startswith(('x', 'a'))|'abc'.endswith('c')|'abc'.endswith('')|'abc'.startswith('b', 1)|'abc'.startswith('', 4)|'abc'.endswith('b', 0, 2)|'abc'.startswith(1)|'abcabc'.find('c')|'abcabc'.rfind('c')|'abc'.find('z')|'aéc'.find('c')|'abc'.index('z')|'abcabc'.index('b', 2)|'abcabc'.rindex('b')|'abcabc'.count('b')|'aaa'.count('aa')|'abc'.count('')|'abc'.find('', 3)|'abc'.find('', 4)|'a-b-c'.replace('-', '+')|'a-b-c'.replace('-', '+', 1)|'abc'.replace('', '.')|'aé'.replace('', '-', 2)|'abc'.replace('b', '')|'abc'.replace('', '.', 0)|', '.join(['a', 'b'])|','.join('abc')|','.join([1])|''.join([])
'7'.zfill(3)|'-7'.zfill(4)|'+7'.zfill(2)|'a'.center(4)|'ab'.center(5, '*')|'a'.ljust(3, '.')|'a'.rjust(3)|'a'.ljust(3, 'xy')|'prefix-a'.removeprefix('prefix-')|'a.txt'.removesuffix('.txt')|'abc'.removeprefix('x')|'12'.isdigit()|'1a'.isdigit()|''.isdigit()|'²'.isdigit()|'²'.isdecimal()|'½'.isnumeric()|'ab'.isalpha()|'é'.isalpha()|'a1'.isalnum()|' \\t'.isspace()|'aB'.islower()|'ab1'.islower()|'AB'.isupper()|'1'.isupper()|'x'.upper(1)|s.upper.x is defined
'{} {}'.format(1, 'a')|'{0}{1}{0}'.format('a', 2)|'{x}-{y}'.format(x=1, y=none)|'{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c')|'{:05d} {:+d} {:,}'.format(42, 7, 1234567)|'{:.2f} {:8.3f} {:e} {:g} {:%}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.25)|'{:x} {:X} {:o} {:b} {:#x}'.format(255, 255, 8, 5, 255)|'{{}} {}'.format(1)|'{'.format()|'}'.format()|'{}'.format()|'{a}'.format()|'{!r}'.format('x')|'{0[0]} {0[1]}'.format(l)|'{a[b]}'.format(a=d)|'{:.3}'.format('abcdef')|'{:*^9}'.format('mid')|'{:d}'.format('a')|'{}'.format(missing)|'{:_}'.format(1234567)
'%s %d' % ('a', 3)|'%s' % 'x'|'%5s|%-5s|' % ('a', 'b')|'%05d %+d % d' % (42, 5, 5)|'%.2f %e %g' % (3.14159, 12345.678, 0.0001)|'%x %X %o %#x' % (255, 255, 8, 255)|'%%' % ()|'%(a)s-%(b)d' % {'a': 'x', 'b': 2}|'%s %s' % 'a'|'%s' % ('a', 'b')|'%d' % 'a'|'%d' % 3.9|'%r' % 'q'|'%c' % 'z'|'%s' % none|'%s' % [1]|'%*d' % (5, 3)|'%.1f%%' % 99.5|'%s' % missing|'%q' % 1|'%' % 1|'%s' | format('a')|'%s-%s' | format(1, 2)|'%(x)s' | format(x=4)|'a' % 1|'a' % []
u | length|s | count|l | length|d | length|missing | length|n | length|none | length|s | upper|s | lower|5 | upper|none | upper|missing | upper|s | title|'foo-bar (baz) x_y' | title|'hELLO wORLD' | capitalize|blank | trim|'xax' | trim('x')|5 | trim|none | trim|missing | trim|s | replace('l', 'L')|s | replace('l', 'L', 1)|5 | replace(5, 6)|s | string|none | string|missing | string|[1] | string|1.50 | string
missing | default('x')|none | default('x')|none | default('x', true)|'' | default('x', boolean=true)|missing | default|missing | d(1)|missing.x | default(1)|d.zz | default('y')|0 | default(5, true)|n | default('x')
l | join|l | join(', ')|words | join('-')|people | join(', ', attribute='name')|people | map(attribute='name') | join(' ')|'abc' | join('.')|missing | join(',')|5 | join|[none, 1, missing] | join('/')|l | join(1)|{'a': 1, 'b': 2} | join(',')
l | first|l | last|e | first|e | last|'abc' | first|'abc' | last|missing | first|range(3) | last|d | first|d | last|5 | first|l | reverse | list|'abc' | reverse|u | reverse|l | reverse|l | list|'abc' | list|d | list|missing | list|5 | list|l | map('string') | list | last|(l | map('string')) | length|(l | map('string')) | last|(e | map('string')) is defined
l | sort|l | sort(reverse=true)|words | sort|words | sort(case_sensitive=true)|words | sort(true)|people | sort(attribute='name') | map(attribute='name') | list|people[:3] | sort(attribute='age,name') | map(attribute='name') | list|people | sort(attribute='age')|[1, 'a'] | sort|missing | sort|'hello' | sort|d | sort|people[:3] | sort(attribute='at.c') | map(attribute='name') | list|[[2, 1], [1, 2]] | sort|[[2, 1], [1, 2]] | sort(attribute=1)|[[2, 1], [1, 2]] | sort(attribute='1')
{'b': 1, 'A': 2, 'c': 0} | dictsort|{'b': 1, 'A': 2} | dictsort(true)|{'b': 1, 'A': 2} | dictsort(false, 'value')|{'b': 1, 'A': 2} | dictsort(reverse=true)|{'b': 1} | dictsort(by='x')|missing | dictsort|l | dictsort|{'a': 1, 2: 3} | dictsort|d | items | list|missing | items | list|l | items
l | sum|[1, 2.5] | sum|e | sum|people[:3] | sum('age')|people[:3] | sum(attribute='age', start=100)|['a'] | sum|[[1], [2]] | sum(start=[])|l | min|l | max|words | min|words | max|words | min(case_sensitive=true)|e | min|people[:3] | max(attribute='age')|[1, 'a'] | max|missing | max|words | unique | list|words | unique(true) | list|[1, 1.0, true, '1'] | unique | list|people | unique(attribute='age') | map(attribute='name') | list|[[1]] | unique | list
people | selectattr('age') | map(attribute='name') | list|people | selectattr('age', 'eq', 30) | map(attribute='name') | list|people | selectattr('age', 'equalto', 25) | list | length|people | rejectattr('age') | map(attribute='name') | list|people | rejectattr('age', 'none') | list | length|people | selectattr('at.c', 'defined') | list | length|people | selectattr('name', 'in', ['Bob']) | list|l | select('odd') | list|l | select('gt', 1) | list|l | reject('even') | list|[0, 1, '', 'a'] | select | list|[0, 1] | reject | list|missing | select('odd') | list|l | select('nope') | list|l | selectattr | list|people | selectattr('age', '==', 30) | list | length|people | map('upper')|l | map('nope') | list|words | map('upper') | list|l | map('default', 1) | list|people | map(attribute='at.c', default='-') | list|people | map(attribute='age') | list|l | map|people | map(attribute='age', x=1) | list|[[1, 2], [3]] | map('first') | list|[[1, 2], [3]] | map('join', '-') | list|[[1, 2]] | map(attribute=0) | list
people | groupby('age') | list | length|people[:3] | groupby('age')|people[:3] | groupby('age') | map('first') | list|(people[:3] | groupby('age'))[0].grouper|(people[:3] | groupby('age'))[1].list | length|people[1:] | groupby('name') | map(attribute='grouper') | list|people | groupby('at.c', default='q') | map(attribute=0) | list|l | batch(2) | list|l | batch(2, 'x') | list|l | slice(2) | list|l | slice(2, 'x') | list|l | batch(0) | list|'abcd' | batch(3) | list|5 | batch(2)
'5' | int|' 42 ' | int|'42.9' | int|'x' | int|'x' | int(-1)|2.9 | int|-2.9 | int|true | int|none | int|'0x1f' | int(0, 16)|'ff' | int(base=16)|'1_000' | int|'1e3' | int|missing | int|[] | int|'٣' | int(9) is defined|'2.5' | float|'x' | float|'x' | float(1.5)|3 | float|none | float|'inf' | float|'nan' | float|'-inf' | float | int|missing | float|-3 | abs|-2.5 | abs|true | abs|'a' | abs|missing | abs
2.5 | round|3.5 | round|2.675 | round(2)|2.65 | round(1)|42.55 | round(1, 'floor')|42.51 | round(1, 'ceil')|7 | round|1234.5 | round(-2)|1250 | round(-2)|2.5 | round(0, 'x')|'a' | round|-0.4 | round
'a\\nb\\n\\nc' | indent|'a\\nb\\n\\nc' | indent(2, true)|'a\\nb\\n\\nc' | indent(2, blank=true)|'a\\nb' | indent('> ')|'a\\nb\\n' | indent(2)|'' | indent|5 | indent|'a\\nb' | indent(width=1, first=true)|'ab' | center(6)|'ab' | center(7)|'a b c d e f g h i j k l m n' | truncate(12)|'a b c d e f g h i j k l m n' | truncate(12, true)|'a b c d e f g h i j k l m n' | truncate(12, false, '!')|'short' | truncate(10)|'foo bar baz qux' | truncate(11, false, '...', 0)|'abcdefghijklmnop' | truncate(3, true, '....')|'one two, three' | wordcount|'' | wordcount
html | e|html | escape|html | safe|(html | safe) + '<b>'|'<b>' + (html | safe)|(html | safe) ~ '<b>'|html | e | e|html | e | forceescape|html | safe | upper|(html | safe).replace('<', '<')|('%s' | safe) % '<b>'|('{}' | safe).format('<b>')|(',' | safe).join(['<', '>'])|['<' | e]|html | safe | string|html | safe is escaped|html is escaped|(html | e)[0:4]|('<' | e) * 2|5 | e|none | e|html | safe | trim|html | safe | length|html | safe | replace('<', '[')|('<' | safe) + 1
'a b/c?d=é' | urlencode|{'a b': 'c/d', 'x': 1} | urlencode|[('a', 1)] | urlencode|5 | urlencode|1000 | filesizeformat|1 | filesizeformat|0 | filesizeformat|123456789 | filesizeformat|1048576 | filesizeformat(true)|999 | filesizeformat|d | attr('items') is callable|d | attr('b')|s | attr('upper') is callable|[1, 'a'] | pprint
d | tojson|u | tojson|u | tojson(ensure_ascii=true)|html | tojson|nested | tojson|nested | tojson(indent=2)|d | tojson(indent=4)|e | tojson(indent=2)|ed | tojson|d | tojson(sort_keys=true)|d | tojson(separators=(',', ':'))|d | tojson(indent=1, separators=(',', ':'))|'\\x00\\x1f\\x7f\\\\/"\\b\\f\\n' | tojson|1.0 | tojson|1e100 | tojson|0.1 | tojson|none | tojson|true | tojson|missing | tojson|range(3) | tojson|(1, 2) | tojson|{1: 2, none: 3, true: 4, 1.5: 5} | tojson|{(1,): 2} | tojson|namespace(a=1) | tojson|'inf' | float | tojson|'nan' | float | tojson|'\\u2028' | tojson|'🙂' | tojson(true)|[1, [2, {'a': []}]] | tojson(indent='--')|d.keys() | tojson|[missing] | tojson|people | tojson|(l | map('string')) | tojson
missing is defined|s is defined|nil is defined|missing is undefined|nil is none|none is none|n is none|t is boolean|n is boolean|t is true|1 is true|no is false|0 is false|n is integer|t is integer|f is integer|f is float|n is float|n is number|t is number|s is number|s is string|n is string|d is mapping|l is mapping|namespace() is mapping|s is iterable|d is iterable|n is iterable|none is iterable|missing is iterable|(l | map('string')) is iterable|range(3) is iterable|s is sequence|l is sequence|d is sequence|n is sequence|none is sequence|missing is sequence|(l | map('string')) is sequence|range(2) is sequence|d.items() is sequence|d.items() is iterable
n is odd|n is even|z is even|f is odd|'a' is odd|missing is odd|9 is divisibleby(3)|9 is divisibleby 2|9 is divisibleby 0|'abc' is lower|'aBc' is lower|'ABC' is upper|'1' is upper|5 is lower|n is eq 7|n is eq(7)|n is ne 7|n is equalto 8|n is lt 8|n is gt 8|n is ge 7|n is le 7|n is lessthan 9|n is greaterthan 9|1 is in [1, 2]|'a' is in 'abc'|3 is not in [1]|s is not defined|missing is not defined|none is sameas none|1 is sameas 1|1 is sameas true|1 is sameas 1.0|'upper' is filter|'nope' is filter|'odd' is test|'nope' is test|range is callable|s is callable|s.upper is callable|missing is callable|1 is odd and 2 is even|not 1 is odd|1 is odd is defined|n is defined and n > 3|n is string or n is number|[] is defined|n is nope|n | nope|n is odd | string|'x' is string ~ 'y'
strftime_now('%Y-%m-%d')|strftime_now('%d %B %Y')|strftime_now('%a %A %b %B %h')|strftime_now('%H:%M:%S %I %p')|strftime_now('%-d %-m %e %j %y %C')|strftime_now('%c | %x | %X | %D | %T | %R | %F | %r')|strftime_now('%u %w %U %W %V %G %g')|strftime_now('%% %z%Z| %n%t|')|strftime_now('é %Y')|strftime_now('%f')|strftime_now(1)|strftime_now()|raise_exception('no!')|raise_exception()|cycler('a', 'b').next()|joiner() is callable|cycler()|range.x is defined|namespace.x is defined
[1, 2, 3][1]|'a'.b.c|(1, 2)|1, 2|l | first + 1|l | length > 2|'a' ~ 'b' | upper|('a' ~ 'b') | upper|-1 | abs|2 + 3 ~ 4|2 ~ 3 + 4|1 + 1 ~ 2 * 2|not 1 == 2|not l|'%s' % 1 + 'a'|[x for x in l]|lambda|1 +|(1|)|[1|{1}|{1: }|a b|'abc|"a|1..2|x.|x[|x[]|f(|f(a=1, 2)|f(**1, *2)|f(*l, 1)|1 is|x is not|1 if|1 |x ||x | 5|a = 1|%|$|a ? b|@|1 !|{{|'\\u12'|'\\N{DASH}' is string|'\\xZZ'|'\\ud800'|é|x.é is defined|99999999999|1 < > 2|1 not 2|not|in|1 in|f(x for x in y)|s[1:2:3:4]|007|1e|0x|1__0|.5|5.|5.e1
"""

TEMPLATES = [
    # White space.
    "a\n{% if true %}\nb\n{% endif %}\nc\n", "a\n  {% if true %}\n  b\n  {% endif %}\nc\n\n",
    "a  {%- if true -%}  b  {%- endif -%}  c", "  {%+ if true %}x{% endif %}", "a\n  {%+ if true +%}\nb\n  {% endif +%}\nc",
    "{{ 1 }}\n{{ 2 }}\n", "  {{ 1 }}  \n  {{- 2 -}}  \n x", "a {#- c -#} b", "a\n  {# c #}\nb", "a {# x\ny #}\n\nb", "{#+ a #} b",
    "a {# unclosed", "{% raw %}{{ x }}{% endraw %}", "a\n {% raw %}\n {% x %}\n {% endraw %}\nb", "{%- raw -%} {{ a }} {%- endraw -%} b",
    "{% raw %}{{ x }}", "x\r\ny\rz\n", "\n\n", "\n", "", "a\n\n", "  {% set x = 1 %}  y", "\t{% set x = 1 %}\ny", "x {% set x = 1 %}\ny",
    "{% set x = 1 %}\n{% set y = 2 %}\n{{ x + y }}", "{{ '\n' }}", "{{ 'a\\\nb' }}", "{{- 1 }} {{ 2 -}} ", "a\n\n  {%- if 1 %}\n\n  b{% endif %}",
    "\u3000{% if 1 %}a{% endif %}", "a\u00a0{%- if 1 -%}\u2003b{% endif %}", "{%if 1%}a{%endif%}", "{{1}}{{'}}'}}{{ {'a': {'b': 1}}['a'] }}",
    "{% if 1 -%}\n\n x {%- endif %}\n y", "{{ '%}' }}{% set x = '{{' %}{{ x }}", "{ % } {{ '{' }}", "{{ '#}' }} {# '}' #}", "{%- -%}", "{% %}", "{{ }}", "{{}}", "%} }} #}",
    # Statements.
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}", "{% if z %}a{% elif no %}b{% elif t %}c{% else %}d{% endif %}", "{% if missing %}a{% else %}b{% endif %}",
    "{% if missing.x %}a{% endif %}", "{% if a %}", "{% endif %}", "{% if 1 %}{% else %}{% else %}{% endif %}", "{% if 1 %}{% endfor %}", "{% if %}{% endif %}", "{% else %}",
    "{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "{% for x in e %}{{ x }}{% else %}none{% endfor %}", "{% for x in missing %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d | items %}{{ k }};{% endfor %}", "{% for k in d %}{{ k }};{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}", "{% for a, b in [[1]] %}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }} {% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "{% for x in l %}{{ loop.previtem.y }}{% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }} {% endfor %}", "{{ loop }}", "{% for x in l %}{{ loop.foo is defined }}{% endfor %}",
    "{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{% endfor %}", "{% for x in l if x > 5 %}{{ x }}{% else %}none{% endfor %}", "{% set ns = namespace(go=true) %}{% for x in l if ns.go %}{{ x }}{% set ns.go = false %}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% break %}", "{% for x in l %}{% break %}{% else %}e{% endfor %}", "{% for x in l %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in l %}{% set y %}a{% break %}{% endset %}{% endfor %}{{ y }}", "{% for x in l %}{% for y in 'ab' %}{{ loop.index }}{% if y == 'a' %}{% continue %}{% endif %}{{ x }}{{ y }}{% endfor %} {% endfor %}",
    "{% for x in l recursive %}{{ x }}{% endfor %}", "{% for x in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}{{ x.v }}{{ loop.depth }}[{{ loop(x.c) }}]{% endfor %}", "{% for x in l %}{{ loop(l) }}{% endfor %}",
    "{% for x in 'aé🙂' %}{{ x }}.{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %}", "{% for x in l | reverse %}{{ x }}{% endfor %}", "{% for x in messages[::-1] %}{{ x.role }} {% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x.y in l %}{% endfor %}", "{% for x %}{% endfor %}", "{% for 1 in l %}{% endfor %}", "{% for x in l %}",
    # Scopes.
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% for i in l %}{% if loop.first %}{% set x = i %}{% endif %}{{ x }}|{% endfor %}{{ x }}",
    "{% set ns = namespace(n=0) %}{% for i in l %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "{% set n.x = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{% set d.x = 1 %}", "{% set missing.x = 1 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = 1 %}", "{% set a = 1, 2 %}{{ a }}", "{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}",
    "{% set x %}a{{ n }}b{% endset %}{{ x }}|{{ x | length }}", "{% set x | upper %}a{{ s }}{% endset %}{{ x }}", "{% set x %}{% set y = 5 %}{% endset %}{{ y }}", "{% set 1 = 2 %}", "{% set x %}", "{% set true = 1 %}", "{% set x = %}", "{% set x 1 %}", "{% set x = 1 2 %}",
    "{{ n }}{% set n = 1 %}{{ n }}", "{% for i in [1] %}{{ n }}{% endfor %}{% set n = 1 %}", "{% macro f() %}{{ n }}{% endmacro %}{{ f() }}{% set n = 1 %}{{ f() }}", "{% for i in [1, 2] %}{{ n }}{% set n = i %}{{ n }}{% endfor %}{{ n }}", "{% for i in [1] %}{% for j in [1] %}{{ n }}{% endfor %}{% set n = 5 %}{% endfor %}",
    "{% if no %}{% set n = 1 %}{% endif %}{{ n }}", "{% if no %}{% set q = 1 %}{% else %}{% set q = 2 %}{% endif %}{{ q }}", "{% if no %}{% set n = 1 %}{% elif no %}{% set n = 2 %}{% else %}{% set n = 3 %}{% endif %}{% for i in [1] %}{{ n }}{% endfor %}", "{% macro f() %}{{ q }}{% endmacro %}{% if t %}{% set q = 1 %}{% endif %}{{ f() }}", "{% set n = n + 1 %}{{ n }}", "{% for n in l %}{{ n }}{% endfor %}{{ n }}", "{% set range = 5 %}{{ range }}", "{% for range in [1] %}{{ range }}{% endfor %}{{ range(2) | list }}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set c = 3 %}{{ c }}{% endwith %}{{ a }}{{ c }}", "{% with a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{% endwith %}", "{% with %}{{ n }}{% endwith %}", "{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}", "{% generation %}a{{ s }}{% set k = 1 %}{% endgeneration %}{{ k }}", "{% generation %}x", "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aa{% endfilter %}", "{% filter nope %}a{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}", "{% print 1, 'a' %}", "{% print n %}", "{% do 1 %}", "{% unknown %}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% 5 %}",
    # Macros.
    "{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}|{{ f(1, 3) }}|{{ f(1, c='y') }}|{{ f(b=5, a=4) }}|{{ f() }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}", "{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(7) }}", "{% macro f(a=1, b) %}{% endmacro %}", "{% macro f(a) %}{{ a.x }}{% endmacro %}{{ f() }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}", "{% macro f(a) %}{{ varargs | length }}{% endmacro %}{{ f(1, 2, 3) }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{% macro f() %}  a\n{% endmacro %}[{{ f() }}]{{ f() | trim | upper }}", "{% macro f(x) %}{{ x }}{% endmacro %}{{ l | map('string') | list }}{{ f(f(f(1))) }}", "{% macro f(*a) %}{% endmacro %}", "{{ f() }}{% macro f() %}x{% endmacro %}", "{% macro f(a, b) %}{{ f.name }}{{ f.arguments }}{{ f.catch_kwargs }}{{ f.caller }}{% endmacro %}{{ f() }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(*[1]) }}{{ f(**{'a': 2}) }}{{ f(*l) }}",
    "{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}x{{ n }}{% endcall %}", "{% macro f() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b=0) f() %}{{ a }}{{ b }}{% endcall %}", "{% macro f() %}a{% endmacro %}{% call f() %}{% endcall %}", "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}", "{% call 5 %}{% endcall %}", "{% call range(2) %}{% endcall %}", "{% macro f() %}{% set z = 9 %}{{ z }}{% endmacro %}{{ f() }}{{ z }}", "{% set k = 1 %}{% macro f() %}{{ k }}{% endmacro %}{% set k = 2 %}{{ f() }}", "{% for i in l %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro f(x) %}{% if x is mapping %}{% for k, v in x | items %}{{ k }}:{{ f(v) }};{% endfor %}{% else %}{{ x }}{% endif %}{% endmacro %}{{ f(d) }}",
    "{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "{% set c = cycler('a', 'b') %}{% for x in l %}{{ c.next() }}{{ c.current }}{% endfor %}", "{% if false %}{{ n | nope }}{% endif %}ok", "{% if true %}{{ n | nope }}{% endif %}", "{{ (n | nope) if false else 'ok' }}", "{{ n | nope if true else 1 }}", "{% if false %}{% for x in l %}{{ x | nope }}{% endfor %}{% endif %}", "{% if n is nope %}{% endif %}", "{% for x in l %}{{ x is nope }}{% endfor %}", "{% if false %}{{ n is nope }}{% endif %}",
    "{% for m in messages %}{% if m.role == 'bad' %}{{ raise_exception('Bad role: ' + m.role) }}{% endif %}{% endfor %}ok", "{{ raise_exception('Only ' ~ messages | length) }}", "{% set x = messages | selectattr('role', 'eq', 'user') | list %}{{ x | length }}{{ x[0].content }}", "{{ messages[0]['role'] in ['system', 'developer'] }}", "{{ messages | map(attribute='content') | join('') | trim }}", "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% endif %}{% for m in rest %}{{ m.content }}{% endfor %}",
]

# Python prints addresses of these, which nobody can depend on.
ADDRESSES = (" at 0x", "<function", "<built-in", "<class", "<bound", "<Macro", "<jinja")

CONVERSATIONS = [
    {"messages": [{"role": "user", "content": " Hi <b> & 'you'\n"}]},
    {"messages": [{"role": "system", "content": "Be terse. "}, {"role": "user", "content": "1+1?"},
                  {"role": "assistant", "content": "<think>\nsum\n</think>\n\n2", "reasoning_content": None},
                  {"role": "user", "content": "Sure?"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look "}, {"type": "image"},
                                               {"type": "text", "text": " here"}]},
                  {"role": "assistant", "content": "Yes", "reasoning_content": "hm"}, {"role": "user", "content": "ok"}]},
    {"messages": [{"role": "assistant", "content": "first"}, {"role": "user", "content": "x"}]},
    {"messages": [{"role": "user", "content": "Weather?"},
                  {"role": "assistant", "content": "", "tool_calls": [
                      {"id": "abc123def", "type": "function",
                       "function": {"name": "weather", "arguments": {"place": "Zürich", "n": 2, "deep": {"a": [1, None]}}}},
                      {"id": "abc123deg", "type": "function", "function": {"name": "now", "arguments": {}}}]},
                  {"role": "tool", "content": "{\"t\": 21}", "tool_call_id": "abc123def", "name": "weather"},
                  {"role": "tool", "content": "noon", "tool_call_id": "abc123deg", "name": "now"}],
     "tools": [{"type": "function", "function": {
         "name": "weather", "description": "Tells \"it\"\nall", "parameters": {
             "type": "object", "required": ["place"], "properties": {
                 "place": {"type": "string", "description": "a <city>", "enum": ["Zürich", "Bern"]},
                 "n": {"type": ["integer", "null"], "default": 3},
                 "tags": {"type": "array", "items": {"type": "string"}},
                 "deep": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}},
                 "any": {"oneOf": [{"type": "boolean"}, {"type": "string", "nullable": True}]}}}}},
         {"type": "function", "function": {"name": "now", "description": "The time"}}]},
]


def main():
    cases = []

    def add(source, variables):
        kind, text = reference.render(source, variables)
        if kind == "text" and any(mark in text for mark in ADDRESSES):
            return
        other = reference.render_with_transformers(source, variables)
        if other and (other[0] != kind or (kind == "text" and other[1] != text)):
            sys.exit(f"transformers renders otherwise: {source!r}: {other} instead of {kind} {text!r}")
        cases.append([source, variables, text if kind == "text" else None])

    for line in EXPRESSIONS.strip().splitlines():
        # A bar alone separates; one between blanks is a filter.
        parts = line.replace(" | ", "\0").split("|")
        for part in parts:
            add("{{ " + part.replace("\0", " | ") + " }}", 0)
    for source in TEMPLATES:
        add(source, 0)
    folder = pathlib.Path(__file__).parent.parent / "data" / "templates"
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text()
        for number, conversation in enumerate(CONVERSATIONS):
            for extra in ({"add_generation_prompt": True}, {"enable_thinking": False, "strict": True}):
                add(source, {**conversation, **extra, "bos_token": "<s>", "eos_token": "</s>"})
    json.dump({"now": reference.NOW, "variables": V, "cases": cases}, sys.stdout, ensure_ascii=False,
              separators=(",", ":"))


if __name__ == "__main__":
    original = reference.render

    def render(source, variables):
        return original(source, V if variables == 0 else variables)

    reference.render = render
    with_transformers = reference.render_with_transformers
    reference.render_with_transformers = lambda source, variables: with_transformers(
        source, V if variables == 0 else variables)
    main()
