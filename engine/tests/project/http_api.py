"""A person's own view of their memory over HTTP, and the page.

Your own routes stand beside them, behind the same sign-in: `build_http(DEPLOYMENT,
routes=[Route("/hello", hello)])`.
"""

from deployment import DEPLOYMENT

from lasting_memory import build_http

app = build_http(DEPLOYMENT)
