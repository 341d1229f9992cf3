// A step that holds an environment of Lockkeeper while its block runs:
//
//   withLockkeeper(url: 'https://lockkeeper.example', labels: 'size=large', credentialsId: 'lockkeeper') {
//     sh 'make end-to-end'
//   }
//
// For a shared library: this file as `vars/withLockkeeper.groovy`, and config/ci/lockkeeper.sh as
// `resources/lockkeeper.sh`. Call it inside a `node` with curl and jq. Options: url, environment or labels ('size=large
// zone=eu'), organization, pipeline, wait (3600), ttl (60); credentialsId of a secret text with a token, or
// identityCredentialsId of an identity token (from the plugin OpenID Connect Provider; then organization is required).
def call(Map options, Closure body) {
  def script = "${pwd(tmp: true)}/lockkeeper.sh"
  writeFile(file: script, text: libraryResource('lockkeeper.sh'))
  def variables = [
    "LOCKKEEPER_URL=${options.url}",
    "LOCKKEEPER_ORGANIZATION=${options.organization ?: ''}",
    "LOCKKEEPER_PIPELINE=${options.pipeline ?: 'web'}",
    "LOCKKEEPER_STATE=${pwd(tmp: true)}/lockkeeper-${UUID.randomUUID()}",
    "LOCKKEEPER_SCRIPT=${script}",
    "LOCKKEEPER_WANTED=${options.environment ?: options.labels ?: ''}",
    "LOCKKEEPER_WAIT=${options.wait ?: 3600}",
    "LOCKKEEPER_TTL=${options.ttl ?: 60}",
  ]
  def identity = options.identityCredentialsId
  def secret = string(credentialsId: identity ?: options.credentialsId, variable: identity ? 'LOCKKEEPER_IDENTITY_TOKEN' : 'LOCKKEEPER_TOKEN')
  withEnv(variables) {
    def held = withCredentials([secret]) {
      sh(label: 'Claim', returnStdout: true, script: 'sh "$LOCKKEEPER_SCRIPT" claim --wait "$LOCKKEEPER_WAIT" --ttl "$LOCKKEEPER_TTL" $LOCKKEEPER_WANTED')
    }
    def found = held.trim().readLines().collect { it - 'export ' }
    try {
      // If the lock is lost, its branch fails, and `failFast` stops the work.
      parallel(
        failFast: true,
        lock: { withCredentials([secret]) { sh(label: 'Keep', script: 'sh "$LOCKKEEPER_SCRIPT" keep') } },
        work: {
          try {
            withEnv(found) { body() }
          } finally {
            // Also ends the other branch.
            withCredentials([secret]) { sh(label: 'Release', script: 'sh "$LOCKKEEPER_SCRIPT" release') }
          }
        },
      )
    } finally {
      // Again for a build that was stopped before the work began; otherwise nothing is held any more.
      withCredentials([secret]) { sh(label: 'Release', script: 'sh "$LOCKKEEPER_SCRIPT" release') }
    }
  }
}
