// A token that somebody enters stays in this page: it is not kept when the page is closed.
SwaggerUIBundle({
  url: "/api/v1/openapi.json",
  dom_id: "#explorer",
  deepLinking: true,
  displayRequestDuration: true,
  persistAuthorization: false,
  // A short page: everything is closed, and the schemas are shown with the operations that use them.
  docExpansion: "none",
  defaultModelsExpandDepth: -1,
  // In the order of the document, but deleting comes last: the examples create what they delete.
  operationsSorter: (a, b) => (a.get("method") === "delete") - (b.get("method") === "delete"),
  plugins: [
    () => ({
      statePlugins: {
        spec: {
          wrapSelectors: {
            // The explorer shows an answer when it is complete, and a stream never is.
            allowTryItOutFor: () => (state, path) => !path.endsWith("/events/stream"),
          },
        },
      },
    }),
  ],
})
