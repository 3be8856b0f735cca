Helper function to determine monitorAllServices based on region
*/}}
{{- define "manager.monitorAllServices" -}}
{{- $region := .Values.region | required ".Values.region is required." -}}
{{- if regexMatch "ap-east-2|ap-southeast-6|cn-.*|.*-iso[a-z]*-.*" $region -}}
false
{{- else -}}
true
{{- end -}}
{{- end -}}

{{/*
Helper function to modify auto-monitor config based on agent configurations
*/}}
{{- define "manager.modify-auto-monitor-config" -}}
{{- $autoMonitorConfig := deepCopy .Values.manager.applicationSignals.autoMonitor -}}
{{- $hasAppSignals := false -}}
{{- range .Values.agents -}}
  {{- $agent := mergeOverwrite (deepCopy $.Values.agent) . -}}
  {{- if and $.Values.applicationSignals.enabled (eq $.Values.applicationSignals.targetAgent $agent.name) -}}
    {{- if and $agent.config (ne ($agent.config | toString) "default") -}}
      {{- $agentConfig := $agent.config -}}
      {{- if or (and (hasKey $agentConfig "logs") (hasKey $agentConfig.logs "metrics_collected") (hasKey $agentConfig.logs.metrics_collected "application_signals")) (and (hasKey $agentConfig "traces") (hasKey $agentConfig.traces "traces_collected") (hasKey $agentConfig.traces.traces_collected "application_signals")) -}}
        {{- $hasAppSignals = true -}}
      {{- end -}}
    {{- else -}}
      {{- $hasAppSignals = true -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if not $hasAppSignals -}}
{{- $_ := set $autoMonitorConfig "monitorAllServices" false -}}
{{- else if not (hasKey $autoMonitorConfig "monitorAllServices") -}}
{{- $_ := set $autoMonitorConfig "monitorAllServices" (include "manager.monitorAllServices" . | trim | eq "true") -}}
{{- end -}}
{{- $autoMonitorConfig | toJson -}}
{{- end -}}
