#!/usr/bin/env python3
"""Writes tests/jinja_cases.json: small templates and what jinja2 makes of them, set up as chat templates are
(trim_blocks, lstrip_blocks, a tojson without HTML escaping, raise_exception, loop controls, generation blocks).
Needs `pip install jinja2`; run it from the repository's root when a case is added below.
A case is a template; its answer is {"text": ...} or, where jinja2 refuses, {"error": ...}."""
import json
import pathlib

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

CONTEXT = {
    "s": "Hello, World", "empty": "", "uni": "Zürich 世界 😸 ß", "spaces": "  a b \n c\t ", "lines": "one\ntwo\r\nthree\n\nfive\n",
    "quote": "it's \"quoted\" \\ back\n<b>&amp;</b>", "n": 7, "neg": -3, "zero": 0, "big": 9007199254740993, "f": 2.5, "tiny": -8.5e-07,
    "huge": 1e16, "third": 0.1, "yes": True, "no": False, "none_": None, "xs": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"],
    "nested": [[1, 2], [3, [4]]], "d": {"b": 1, "a": 2, "items": 3}, "deep": {"x": {"y": [{"z": "end"}]}},
    "people": [{"name": "Ann", "age": 30, "city": {"zip": "1"}}, {"name": "bob", "age": 25, "city": {"zip": "2"}},
               {"name": "Cid", "age": 30}, {"name": "ann", "age": 41, "city": {"zip": "1"}}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "<think>hm</think>Hello"}, {"role": "user", "content": "Bye"}],
    "schema": {"type": "object", "properties": {"q": {"type": "string", "enum": ["a", "b"]}, "n": {"type": "integer"}}, "required": ["q"]},
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}],
}

PRINTED = r"""
1 + 2 * 3 - 4|2 ** 3 ** 2|-2 ** 2|7 / 2|7 // 2|-7 // 2|7 % 3|-7 % 3|7 % -3|7.5 // 2|-7.5 % 2|2 ** -1|2 ** 0.5|10 / 5|1e3|1e16|1e15|1.5e-5|0.0001|0.00001
1_000 + 0x1f + 0b11 + 0o17|1.0|100.0|1e22|123456789012345680.0|0.1 + 0.2|1 / 3|-0.0|3.0 * 2|1e300 * 1e10|5 // 0.3|True + True|True * 3|true and false
true or false|not true|not not 5|not 0|1 < 2 < 3|1 < 3 < 2|3 > 2 >= 2|1 == 1.0|1 == true|'a' < 'b'|'a' == 1|'a' != 1|[1, 2] < [1, 3]|[1] == [1.0]|(1, 2) == [1, 2]|none == none
1 if true else 2|1 if false else 2|'x' if false|(1 if false) is defined|'a' ~ 1 ~ none ~ true ~ 2.0|'a' + 'b'|'ab' * 3|3 * 'ab'|[1] * 2 + [2]|(1,) + (2,)|'a' 'b' 'c'
'b' in 'abc'|'x' not in 'abc'|1 in [1, 2]|'a' in d|'zz' in d|1 in (1, 2)|'' in ''|not 1 in [2]|1 in [1] == true
[]|()|(1,)|(1, 2)|{}|[1, 'a', none, true, 1.0, [2]]|{'a': 1, 'b': [1, 2]}|{1: 'x', 1.5: 'y', none: 'z', true: 't'}|{'a': {'b': 'c'}}|'it\'s'|["it's"]|['"']|['\'"']|['a\nb\t\\ é 世 😸 \x07 \x7f']
['\u200b\xa0\u2028\xad']|'\x41\u00e9\101\/\q'|"\"q\""|uni|[uni]|quote|[quote]|spaces|big|huge|tiny|third|f|[huge, tiny, third]|none_|yes|no|[none_, yes]
s.upper()|s.lower()|uni.upper()|uni.lower()|'ßﬁ'.upper()|'ΑΣ ΣΑΣ'.lower()|'İ'.lower()|s.title()|"they're bill's".title()|s.capitalize()|'éCOLE'.capitalize()|s.swapcase()|s.center(20)|s.center(21, '*')|'ab'.center(5)|s.ljust(15, '.')|s.rjust(15)|'7'.zfill(3)|'-7'.zfill(4)
s.split()|s.split(',')|s.split('l', 1)|s.rsplit('l', 1)|'a,b,,c'.split(',')|' a  b '.split()|' a  b c '.split(none, 1)|' a  b c '.rsplit(none, 1)|''.split()|''.split(',')|spaces.split()|lines.splitlines()|lines.splitlines(true)|'a,b'.split(sep=',', maxsplit=1)
s.strip('Hd')|spaces.strip()|spaces.lstrip()|spaces.rstrip()|'xxaxx'.strip('x')|'xxaxx'.lstrip('x')|'xxaxx'.rstrip('x')|'éaé'.strip('é')|'\n\na\n'.strip('\n')|s.replace('l', 'L')|s.replace('l', 'L', 1)|'abc'.replace('', '-')|''.replace('', 'x')|'aaa'.replace('aa', 'b')
s.startswith('Hello')|s.startswith(('x', 'H'))|s.endswith('World')|s.endswith(('x', 'y'))|s.startswith('World', 7)|s.find('o')|s.rfind('o')|s.find('zz')|uni.find('世')|s.index('o')|s.count('l')|'aaaa'.count('aa')|s.find('o', 5)|s.count('l', 0, 4)|s.partition(', ')|s.rpartition('o')|s.partition('zz')|s.rpartition('zz')
s.removeprefix('Hello')|s.removesuffix('World')|'abc'.isalpha()|'ab1'.isalnum()|'12'.isdigit()|''.isdigit()|' '.isspace()|'abc'.islower()|'ABC'.isupper()|'Abc'.islower()|'a1'.isupper()|'é'.isascii()|'½'.isnumeric()|'12'.isdecimal()|', '.join(['a', 'b'])|''.join(words)|'-'.join('abc')
'%s and %s' % ('a', 1)|'%d%%' % 5|'%5d|' % 42|'%-5d|' % 42|'%05d' % -42|'%+d' % 3|'%x %X %o' % (255, 255, 8)|'%#x' % 255|'%.2f' % 3.14159|'%10.3f|' % f|'%e' % 12345.678|'%g' % 0.0001|'%g' % 1e10|'%s' % [1]|'%r' % 'a'|'%c%c' % ('a', 66)|'%(a)s-%(b)s' % {'a': 1, 'b': 2}|'%5s|%-5s|' % ('ab', 'cd')|'%.1s' % 'abc'|'%d' % 2.7|'100%%' % ()|'%s' % none|'%s' % (none,)|'%3d%%' % 50|'%*d' % (5, 42)|'%i' % 3
'{} {}'.format(1, 'b')|'{0} {1} {0}'.format('a', 'b')|'{x}-{y}'.format(x=1, y=2)|'{:>5}|'.format('ab')|'{:<5}|'.format('ab')|'{:^5}|'.format('ab')|'{:*^7}'.format('ab')|'{:05d}'.format(42)|'{:+.2f}'.format(3.14159)|'{:,}'.format(1234567)|'{:_}'.format(1234567)|'{:x} {:#x} {:b}'.format(255, 255, 5)|'{:.1%}'.format(0.256)|'{:e}'.format(1234.5)|'{{}}'.format()|'{!r}'.format('a')|'{0[a]} {0[b]}'.format(d)|'{0[1]}'.format(xs)|'{:{w}}|'.format('a', w=4)|'{:.2}'.format('abc')|'{:.3}'.format(3.14159)|'{}'.format(none)|'{:8.2f}|'.format(3)|'{:>8,.2f}|'.format(12345.678)|'{:n}'.format(5)|'{}'.format(true)|'{:d}'.format(true)|'{:6}|'.format(true)
xs[0]|xs[-1]|xs[5] is defined|s[0]|s[-1]|uni[7]|s[1:4]|s[::-1]|s[:-3]|s[-3:]|uni[7:9]|uni[::-1]|xs[1:]|xs[::-1]|xs[::2]|xs[5:]|xs[-2:]|xs[:0]|xs[2:0:-1]|(1, 2, 3)[1:]|range(10)[2:5]|range(10)[-1]|range(10)[::3]|range(5)|range(1, 5, 2)|range(5, 0, -2)|range(3)[1]|range(0)
d.a|d['a']|d.items()|d['items']|d.keys()|d.values()|d.get('a')|d.get('zz')|d.get('zz', 5)|d.zz is defined|d.zz|deep.x.y[0].z|deep['x']['y'][0]['z']|nested[1][1][0]|people[0].city.zip|people[2].city is defined|d|length|d.copy()|xs.0|nested.1.0|xs.index(1)|xs.count(1)|xs.copy()|(1, 2, 1).count(1)
undefined_|undefined_ is defined|undefined_ is undefined|undefined_|default('x')|undefined_ or 'y'|not undefined_|undefined_ == undefined_|undefined_ ~ 'a'|undefined_|length|undefined_|list|undefined_|upper|undefined_ is string|undefined_ is iterable|undefined_ is sequence|undefined_ is mapping|1 in undefined_|undefined_ is none|[undefined_]|none_.foo|none_.foo is defined|d.a.b|n.foo
s|upper|s|lower|'a-b (c) [d] <e> f_g'|title|s|title|'hELLO wORLD'|capitalize|s|trim|spaces|trim|'xax'|trim('x')|s|length|uni|length|s|count|xs|length|d|length|s|reverse|xs|reverse|list|s|first|s|last|xs|first|xs|last|[]|first|[]|first is defined|d|first|s|list|d|list|(1, 2)|list
xs|sort|xs|sort(reverse=true)|words|sort|words|sort(case_sensitive=true)|people|sort(attribute='age')|map(attribute='name')|list|people|sort(attribute='age,name')|map(attribute='name')|list|people|sort(attribute='age', reverse=true)|map(attribute='name')|list|words|unique|list|words|unique(true)|list|xs|min|xs|max|words|min|words|max(case_sensitive=true)|people|max(attribute='age')|[]|min
xs|sum|people|sum(attribute='age')|xs|sum(start=10)|[0.1, 0.2]|sum|xs|join|xs|join(', ')|people|join(', ', attribute='name')|'abc'|join('-')|[none, true, 1.5]|join(' ')|d|join(',')|xs|map('string')|list|words|map('upper')|list|people|map(attribute='city.zip', default='none')|list|people|map(attribute='zz')|list|people|map(attribute='zz', default=0)|list|[[1, 2], [3]]|map('join', '+')|list|['a', 'b']|map('replace', 'a', 'x')|list|xs|map('string')|join
xs|select('odd')|list|xs|reject('odd')|list|xs|select('gt', 1)|list|[0, 1, '', 'a', none]|select|list|[0, 1, '']|reject|list|people|selectattr('city')|map(attribute='name')|list|people|selectattr('age', 'equalto', 30)|map(attribute='name')|list|people|rejectattr('age', '==', 30)|map(attribute='name')|list|people|selectattr('city', 'defined')|list|length|people|rejectattr('city', 'defined')|list|messages|selectattr('role', 'in', ['user', 'system'])|map(attribute='content')|list|xs|select('divisibleby', 2)|list
d|dictsort|{'b': 1, 'A': 2, 'a': 3}|dictsort|{'b': 1, 'A': 2}|dictsort(true)|d|dictsort(by='value')|d|dictsort(reverse=true)|d|dictsort(false, 'value', true)|d|items|list|schema.properties|items|list|people|groupby('age')|map('first')|list|people|groupby('age')|map('last')|map('length')|list|people|groupby('city.zip', default='-')|map(attribute='grouper')|list|people|groupby('name')|map(attribute='grouper')|list|people|groupby('age')|first
[1, 2, 3, 4, 5]|batch(2)|list|[1, 2, 3]|batch(2, 'x')|list|[1, 2, 3, 4, 5]|slice(2)|list|[1, 2, 3, 4, 5]|slice(3, 'x')|list|s|replace('l', 'L')|s|replace('l', 'L', 1)|5|string|[1]|string|5|string|length|'5'|int|'5.7'|int|'x'|int|'x'|int(9)|'ff'|int(0, 16)|'0x1f'|int(0, 16)|' 42 '|int|'1_000'|int|2.9|int|-2.9|int|true|int|none_|int|'3.5'|float|'x'|float|'x'|float(1.5)|'1e3'|float|5|float|'inf'|float
2.5|round|3.5|round|2.567|round(2)|2.5|round(0, 'ceil')|2.567|round(1, 'floor')|42|round|1234.5678|round(-2)|2.675|round(2)|-3|abs|2.5|abs|-2.5|abs|'<a href="x">\'&'|e|'<'|escape|'<'|safe|('<'|e) + '<'|('<'|safe) ~ '<'|'<'|forceescape|('<'|e)|e|('<'|e) is escaped|'<' is escaped
none_|default('x')|none_|default('x', true)|''|default('x')|''|default('x', true)|undefined_|d('x')|0|default('x', boolean=true)|'%s-%s'|format('a', 1)|'%(x)s'|format(x=3)|'a b c'|wordcount|'don\'t stop'|wordcount|'abc def ghi jkl'|truncate(9)|'abc def ghi jkl'|truncate(9, true)|'abc def ghi jkl'|truncate(12)|'abc def'|truncate(5, end='…', leeway=0)|lines|indent|lines|indent(2, true)|lines|indent('>', blank=true)|'a\nb'|indent|''|indent(first=true)|'a b/c?d=é&'|urlencode|{'a b': 'c&d', 'e': 1}|urlencode|[('x', 'y')]|urlencode|1|filesizeformat|999|filesizeformat|1000|filesizeformat|1234567|filesizeformat|1234567|filesizeformat(true)|'ab'|center(6)
d|tojson|[1, 2.0, 'a"b', none, true]|tojson|uni|tojson|uni|tojson(ensure_ascii=true)|quote|tojson|'\x00\x1f\x7f\b\f/'|tojson|schema|tojson(indent=2)|schema|tojson(indent=4)|[]|tojson(indent=2)|{}|tojson(indent=2)|[[], {}]|tojson(indent=2)|schema|tojson(separators=(',', ':'))|{'b': 1, 'a': 2}|tojson(sort_keys=true)|tiny|tojson|huge|tojson|(1, 2)|tojson|{1: 2, none: 3, true: 4, 1.5: 5}|tojson|'<>&\''|tojson|1e300 * 1e10|tojson|{'a': [1, {'b': 2}]}|tojson(indent='--')|s|tojson|tojson
1 is odd|2 is even|3 is divisibleby 3|3 is divisibleby(2)|s is string|1 is string|1 is number|1.0 is number|true is number|1 is integer|true is integer|1.0 is float|true is boolean|1 is boolean|none is none|d is mapping|xs is mapping|xs is sequence|d is sequence|s is sequence|1 is sequence|xs is iterable|1 is iterable|(xs|map('string')) is sequence|(xs|map('string')) is iterable|range is callable|s is callable|1 is eq 1|1 is equalto 2|1 is ne 2|1 is lt 2|2 is gt 1|1 is le 1|1 is ge 2|1 is in [1]|'a' is in 'abc'|true is true|1 is true|false is false|0 is false|'a' is lower|'A' is upper|'1' is lower|none is sameas none|'upper' is filter|'zz' is filter|'odd' is test|1 is not odd|not 1 is odd|s is not none|1 is odd and 2 is even|1 is odd is defined
namespace(a=1).a|namespace({'a': 1}, b=2).b|dict(a=1, b=2)|dict([('a', 1)])|dict({'a': 1}, b=2)|cycler('a', 'b').current|joiner()|callable
xs|tojson|length|-1|abs|- 1 | abs|(-1)|abs|2 + 3|string|'a' ~ 1 + 2|1 + 2 ~ 'a'|not 1 == 2|1 == 1 and 2 == 2|1 or 1 / 0|0 and 1 / 0|'a' if 1 else 'b' if 0 else 'c'|('a' if 0 else 'b') ~ 'c'|[1, 2][0] + 1|{'a': 1}.a|{'a': 1}['a']|'abc'[1]|'abc'.upper()[0]|(1, 2)[0]|1, 2|xs[0], xs[1]|[1, 2,]|{'a': 1,}|(1, 2,)
xs + 1|'a' + 1|1 + 'a'|none + 'a'|'a' + none_|[1] + (2,)|1 < 'a'|none < 1|1 / 0|1 // 0|1 % 0|-'a'|undefined_.x|undefined_['x']|undefined_ + 1|undefined_()|undefined_|tojson|d.a.b.c|d.zz.b|none_.a.b|5 in 5|1 in none_|'a' in 1|1 in 'a'|none_|length|5|length|5|list|none_|list|none_|join|5()|'a'()|d.nope()|'%d' % 'a'|'%s %s' % 'a'|'%s' % ('a', 'b')|'{}'.format()|xs|nope|1 is nope|xs|sort(attribute='zz')|[1, 'a']|sort|[none, 1]|max|{[]: 1}|range()|range(1, 2, 0)|range(1000000)|'abc'.index('z')|s.split('')|raise_exception('the message')|namespace|tojson|(xs|map('string'))|tojson|(1).foo.bar|s.zz()|undefined_|int|'x' * 'y'|~1|xs[0:2:0]|xs['a':]|none_[1:]|'a'.join([1])|{'a': 1} + {'b': 2}
"""

STATEMENTS = [
    # white space around tags
    "a\n{% if true %}\nb\n{% endif %}\nc\n", "  {% if true %}\n  b\n  {% endif %}\n", "a {%- if true -%} b {%- endif -%} c",
    "a\n\n  {%- if true %}\n\nb{% endif %}", "a  {{- 1 -}}  b", "a\n{{ 1 }}\nb", "  {{ 1 }}\n", "{{ 1 }}\n\n", "x\n", "x\n\n", "\n", "",
    "a{# c #}b", "a\n{# c #}\nb", "  {# c #}\n  b", "a {#- c -#} b", "{#- a #}\n b", "{# a\nb #}c", "{##}", "{#-#} x", "{#- -#} x",
    "{%+ if true %}x{% endif %}", "  {%+ if true %}x{% endif %}", "{% if true +%}\nx{% endif %}", "  {{+ 1 }}", "a\r\nb\rc\n",
    "{% raw %}{{ x }}{% endraw %}", "a {%- raw -%} {{ x }} {%- endraw -%} b", "{% raw %}\n  {% if %}\n{% endraw %}\n!", "{% raw %}  {% endraw %}  x",
    "  {% raw %} a {% endraw %}", "{{ '{{' }} {{ '%}' }}", "{{ {'a': {'b': 1}} }}", "{{ {'a': {'b': 1}}.a.b }}", "{ { } } {x} #} %} }}", "{{ 1 }}}",
    "a\n  {% set x = 1 %}  \n  b", "\t{% if true %}\t\n\tx\n\t{% endif %}\ty", "{% if true %}\n\n\nx{% endif %}", "a\u00a0{%- if true %}x{% endif %}", "1{% if 1 %} {% endif %}2",
    "{%if true%}a{%endif%}", "{{1}}{{-2}}", "{{ 'a\nb' }}", "{{ \"a\\\nb\" }}",
    # loops
    "{% for i in xs %}{{ i }},{% endfor %}", "{% for i in [] %}x{% else %}empty{% endfor %}", "{% for i in xs if i > 1 %}{{ i }}{{ loop.length }}{% endfor %}",
    "{% for i in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for i in xs %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "{% for i in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for i in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }} {% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d|items %}{{ k }}{{ v }}{% endfor %}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }} {% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for c in 'héy' %}[{{ c }}]{% endfor %}", "{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }}|{% endfor %}",
    "{% for i in range(10) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in range(6) %}{% if i is odd %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for n in tree recursive %}{{ n.v }}{{ loop.depth }}{% if n.kids %}({{ loop(n.kids) }}){% endif %}{% endfor %}", "{% for i in xs %}{% set y = i %}{% endfor %}{{ y is defined }}",
    "{% set x = 0 %}{% for i in xs %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "{% set ns = namespace(x=0) %}{% for i in xs %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% for i in undefined_ %}x{% else %}none{% endfor %}", "{% for i in none_ %}x{% endfor %}", "{% for i in 5 %}x{% endfor %}", "{% for a, b in [1] %}x{% endfor %}", "{% for a, b in [[1, 2, 3]] %}x{% endfor %}",
    "{% for m in messages[::-1] %}{{ m.role }} {% endfor %}", "{% for m in messages %}{{ messages[loop.index0 - 1].role }} {% endfor %}", "{% for i in xs %}{{ i }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for x in xs|sort|reverse %}{{ x }}{% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for k, v in schema.properties.items() recursive %}{{ k }}{% endfor %}",
    "{% for i in xs %}{{ i }}{% break %}{% else %}never{% endfor %}", "{% for i in [] recursive %}{% else %}e{% endfor %}", "{% set it = xs|map('string') %}{% for i in it %}{{ i }}{% endfor %}{% for i in it %}{{ i }}{% endfor %}",
    "{% for i in xs %}{% filter upper %}a{{ i }}{% if i == 1 %}{% continue %}{% endif %}b{% endfilter %}{% endfor %}", "{{ loop is defined }}{% for i in [1] %}{{ loop is defined }}{% endfor %}",
    "{% for i in [3] %}{{ i }}{% endfor %}{{ i is defined }}", "{% for i in xs if loop.index %}{% endfor %}", "{% for n in tree %}{{ loop(n.kids) }}{% endfor %}",
    # if, set, with
    "{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}", "{% if zero %}a{% elif empty %}b{% else %}c{% endif %}", "{% if undefined_ %}a{% endif %}b", "{% if xs and d %}y{% endif %}",
    "{% if true %}{% set x = 1 %}{% endif %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set x %}a{{ n }}b{% endset %}{{ x }}|{{ x|length }}", "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% set x | replace('a', 'b') | upper %}aa{% endset %}{{ x }}", "{% set x = 1, 2 %}{{ x }}", "{% set d.x = 1 %}", "{% set true = 1 %}", "{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}",
    "{% set a = 1 %}{% with a=2, b=a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}", "{% set x = 1 %}{% set x = x + 1 %}{{ x }}", "{% set ns = namespace() %}{% set ns.a = 'q' %}{{ ns.a }}{{ ns.b is defined }}",
    "{% set ns = namespace(a=[]) %}{% set ns.a = ns.a + [1] %}{% set ns.a = ns.a + [2] %}{{ ns.a }}", "{% set x = [1, 2] if yes else [] %}{{ x }}", "{% set s = s %}{{ s }}", "{% set s = s + '!' %}{{ s }}",
    # macros
    "{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(b=5, a=4) }} {{ f() }}", "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}", "{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}", "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}",
    "{% macro f() %}{% set x = 2 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}{{ x }}", "{% macro f(x) %} a {% endmacro %}[{{ f(1) }}]", "{% macro f(x) -%} a {%- endmacro %}[{{ f(1)|upper }}]", "{% macro f(x) %}<{{ caller() }}>{{ x }}{% endmacro %}{% call f(1) %}in{{ n }}{% endcall %}",
    "{% macro f() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) f() %}{{ a }}-{{ b }}{% endcall %}", "{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}", "{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}", "{% macro f(a, b=a) %}{{ b }}{% endmacro %}{{ f(7) }}",
    "{% macro f(a='x', b) %}{% endmacro %}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f.name }}{{ f.arguments }}{{ f.catch_kwargs }}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro f(*a) %}{% endmacro %}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(*[1]) }}{{ f(**{'a': 2}) }}",
    "{% for i in xs %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}", "{% macro f() %}{% for i in [1] %}{{ loop.index }}{% endfor %}{% endmacro %}{% for i in xs %}{{ f() }}{% endfor %}", "{% macro f(x) %}{{ x }}{% endmacro %}{{ xs|map('string')|join }}{{ f }}"[:-7],
    "{% macro f(a, a2=[]) %}{{ a2 }}{% endmacro %}{{ f(1) }}", "{% macro f(x) %}{{ x|upper }}{% endmacro %}{{ f('a') ~ f('b') }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}",
    # other blocks
    "{% filter upper %}abc{{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aa{% endfilter %}", "{% block x %}in{% endblock %}", "{% block x %}in{% endblock x %}", "{% generation %}gen{{ n }}{% endgeneration %}", "{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}{% endfor %}",
    "{% print 1 %}{% print 'a', 2 %}", "{% autoescape false %}<{{ '<' }}{% endautoescape %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}", "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b", "{% set j = joiner() %}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}",
    # things that do not parse
    "{% if %}", "{% if x %}", "{% endif %}", "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{% for x %}{% endfor %}", "{% for x in %}{% endfor %}", "{% nope %}", "{# open", "{% raw %} open", "{{ 'open }}", "{{ a b }}", "{{ a.1b }}", "{{ $ }}", "{% set x %}", "{% else %}", "{% macro %}{% endmacro %}", "{% macro f %}{% endmacro %}",
    "{% break %}", "{% extends 'x' %}", "{% include 'x' %}", "{% import 'x' as y %}", "{{ a[ }}", "{{ {1} }}", "{{ f(a=1, 2) }}", "{{ [1 2] }}", "{% for x in xs %}{% endfor", "{{", "{%", "{{ 1", "{% call 5 %}{% endcall %}", "{{ a is }}", "{{ a | }}", "{% if x %}{% endfor %}", "{{ x[1:2:3:4] }}", "{{ - }}", "{{ not }}",
    # as chat templates do it
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}", "{{ messages[0]['content'] if messages[0].role == 'system' else '' }}", "{{ messages[2].content.split('</think>')[-1].lstrip('\\n') }}", "{{ messages[2].content.split('</think>')[0].rstrip('\\n').split('<think>')[-1] }}",
    "{% if '</think>' in messages[2].content %}y{% endif %}", "{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{{ loop_messages|length }}", "{% if (messages[1].role == 'user') != (0 % 2 == 0) %}{{ raise_exception('order') }}{% endif %}ok",
    "{{ raise_exception('Roles must alternate: ' + messages[0].role) }}", "{% for m in messages %}{% if loop.index0 == messages|length - 1 %}last:{{ m.content }}{% endif %}{% endfor %}", "{% set last = (messages|selectattr('role', 'equalto', 'user')|list|last).content %}{{ last }}",
    "{{ schema.properties|tojson(indent=4) }}", "{% for k, v in schema.properties|dictsort %}{{ k }}:{{ v.type|upper }}{% endfor %}", "{{ 'q' in (schema.required or []) }}", "{% set t = tools if tools is defined and tools else [] %}{{ t|length }}", "{{ (messages[1].tool_calls or [])|length }}",
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}", "{{ messages|map(attribute='role')|join('/') }}", "{{ messages[-1].content | trim }}", "{%- if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{{ add_generation_prompt }}",
    "{{ messages[1]['content'] + '\\n\\n' | trim }}", "{% set x = messages[0].content %}{{ x.split(' ')|length }}{{ x[:2] }}", "{{ 'a' if enable_thinking is defined and enable_thinking is false else 'b' }}", "{% if messages[0].content is string and messages[0].content is not mapping %}s{% endif %}",
]


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def split_row(row):
    """Splits at "|" that stand outside brackets and quotes and are not followed by a filter's name."""
    filters = set(environment().filters) | {"nope"}
    parts, at, depth, quote = [""], 0, 0, ""
    while at < len(row):
        c = row[at]
        if quote:
            parts[-1] += c
            if c == "\\":
                at += 1
                parts[-1] += row[at]
            elif c == quote:
                quote = ""
        elif c == "|" and depth == 0:
            rest = row[at + 1:].lstrip()
            word = rest[:len(rest) - len(rest.lstrip("abcdefghijklmnopqrstuvwxyz_"))]
            after = rest[len(word):len(word) + 1]
            is_filter = word in filters and (after in ("|", "(", "", "[", ")") or rest[len(word):].startswith((" is ", " ~", " +")))
            if is_filter and not (word == "d" and after == "|"):
                parts[-1] += c
            else:
                parts.append("")
        else:
            depth += (c in "([{") - (c in ")]}")
            quote = c if c in "'\"" else ""
            parts[-1] += c
        at += 1
    return [p.strip() for p in parts if p.strip()]


def answer(template):
    context = json.loads(json.dumps(CONTEXT))
    try:
        return {"text": environment().from_string(template).render(**context)}
    except Exception as e:  # whatever it is: a refusal
        return {"error": f"{type(e).__name__}: {e}"}


def main():
    templates = ["{{ " + part + " }}" for row in PRINTED.strip("\n").split("\n") for part in split_row(row)]
    cases = [{"template": t, **answer(t)} for t in dict.fromkeys(templates + STATEMENTS)]
    cases = [c for c in cases if "object at 0x" not in c.get("text", "")]
    path = pathlib.Path(__file__).parent / "jinja_cases.json"
    rows = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
    path.write_text('{"context": ' + json.dumps(CONTEXT, ensure_ascii=False) + ',\n"cases": [\n' + rows + "\n]}\n")
    print(f"{len(cases)} cases, {sum('error' in c for c in cases)} of them refusals")


if __name__ == "__main__":
    main()
