// A token that somebody enters stays in this page: it is not kept when the page is closed.
SwaggerUIBundle({
  url: "/api/v1/openapi.json",
  dom_id: "#explorer",
  deepLinking: true,
  displayRequestDuration: true,
  persistAuthorization: false,
})
