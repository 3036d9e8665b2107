/** Names of the schemas in a clone: the host's, and the one that it hands to the plugin. */
export const coreSchema = "core"
export const pluginSchema = "plugin_sandbox"
