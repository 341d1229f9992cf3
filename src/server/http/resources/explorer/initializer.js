// A token entered in this page is forgotten when the page is closed.
SwaggerUIBundle({
  url: "/api/v1/openapi.json",
  dom_id: "#explorer",
  deepLinking: true,
  displayRequestDuration: true,
  persistAuthorization: false,
  // Keeps the page short: everything is collapsed, and schemas are shown with their operations.
  docExpansion: "none",
  defaultModelsExpandDepth: -1,
  // In the order of the document, except that deletions come last: the examples first create their records.
  operationsSorter: (a, b) => (a.get("method") === "delete") - (b.get("method") === "delete"),
  plugins: [
    () => ({
      statePlugins: {
        spec: {
          wrapSelectors: {
            // The explorer shows complete responses only, and a stream never completes.
            allowTryItOutFor: () => (state, path) => !path.endsWith("/events/stream"),
          },
        },
      },
    }),
  ],
})
