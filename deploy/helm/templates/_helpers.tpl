{{- /* Name of all objects. */ -}}
{{- define "workflow-api.name" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "workflow-api.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- /* Name of a Secret: `list ROOT GIVEN SUFFIX`. */ -}}
{{- define "workflow-api.secret" -}}
{{ index . 1 | default (printf "%s-%s" (include "workflow-api.name" (index . 0)) (index . 2)) }}
{{- end -}}

{{- define "workflow-api.domain" -}}
{{ .Values.certificates.domain | default (include "workflow-api.name" .) }}
{{- end -}}

{{- /* A table of TOML, `dict "table" TABLE "path" PATH`; JSON's scalars and lists of them are TOML's, too. */ -}}
{{- define "workflow-api.toml" -}}
{{- range $name, $value := .table }}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ template "workflow-api.toml-name" $name }} = {{ $value | toRawJson }}
{{- end }}
{{- end }}
{{- range $name, $value := .table }}
{{- if kindIs "map" $value }}
{{- $path := printf "%s%s" $.path (include "workflow-api.toml-name" $name) }}

[{{ $path }}]
{{- include "workflow-api.toml" (dict "table" $value "path" (printf "%s." $path)) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "workflow-api.toml-name" -}}
{{ if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ . | toRawJson }}{{ end }}
{{- end -}}

{{- define "workflow-api.certificate-files" -}}
{{ dict "certificate" (printf "%s/tls.crt" .) "key" (printf "%s/tls.key" .) "ca" (printf "%s/ca.crt" .) | toJson }}
{{- end -}}

{{- /* All settings: the chart's, under those of the values. */ -}}
{{- define "workflow-api.settings" -}}
{{- $backend := printf "%s-backend:9090" (include "workflow-api.name" .) }}
{{- $domain := include "workflow-api.domain" . }}
{{- $files := dict }}
{{- range $part := list "edge" "console" "backend" "admin" }}
{{- $_ := set $files $part (include "workflow-api.certificate-files" (printf "/run/secrets/%s" $part) | fromJson) }}
{{- end }}
{{- $edge := dict "http" "0.0.0.0:8080" "backend" $backend "backend_tls" $files.edge }}
{{- if .Values.secrets.redis.enabled }}
{{- $_ := set $edge "redis_url" (printf "file:/run/secrets/redis/%s" .Values.secrets.redis.key) }}
{{- end }}
{{- $own := dict
  "edge" $edge
  "console" (dict "listen" "0.0.0.0:8090" "backend" $backend "backend_tls" $files.console)
  "backend" (dict
    "grpc" "0.0.0.0:9090"
    "database" (printf "file:/run/secrets/database/%s" .Values.secrets.database.key)
    "tls" $files.backend)
  "admin" (dict "backend_tls" $files.admin)
  "identities" (dict
    (printf "dns:edge.%s" $domain) (list "edge")
    (printf "dns:console.%s" $domain) (list "console")
    (printf "dns:admin.%s" $domain) (list "administration" "runs"))
  "runtime" (dict "engine" "dbos") }}
{{- include "workflow-api.toml" (dict "table" (mergeOverwrite $own (deepCopy .Values.settings)) "path" "") | trim }}
{{- end -}}

{{- define "workflow-api.service-account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "workflow-api.name" .root }}-{{ .part }}
  {{- with (index .root.Values .part).serviceAccountAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}

{{- /* Service for callers over HTTP. */ -}}
{{- define "workflow-api.http-service" -}}
{{- $name := printf "%s-%s" (include "workflow-api.name" .root) .part }}
{{- with (index .root.Values .part).service -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  {{- with .annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if ne .type "ClusterIP" }}
  type: {{ .type }}
  {{- end }}
  selector: {app.kubernetes.io/name: {{ $name }}}
  ports:
    - {name: http, port: {{ .port }}, targetPort: http}
{{- end }}
{{- end -}}

{{- /* A Deployment up to its container: `dict "root" ROOT "part" PART "grace" SECONDS`. */ -}}
{{- define "workflow-api.deployment" -}}
{{- $full := include "workflow-api.name" .root }}
{{- $name := printf "%s-%s" $full .part }}
{{- $values := index .root.Values .part -}}
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ $name }}}
spec:
  {{- if .scaled }}
  # An autoscaler sets the number of replicas.
  {{- else }}
  replicas: {{ $values.replicas }}
  {{- end }}
  selector: {matchLabels: {app.kubernetes.io/name: {{ $name }}}}
  # Time for callers to discover a new pod before an old one stops.
  minReadySeconds: 10
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata:
      labels: {app.kubernetes.io/name: {{ $name }}, app.kubernetes.io/part-of: {{ $full }}}
      {{- if or .root.Values.restartOnChange $values.podAnnotations }}
      annotations:
        {{- if .root.Values.restartOnChange }}
        workflow-api/settings: {{ include "workflow-api.settings" .root | sha256sum }}
        {{- end }}
        {{- with $values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      terminationGracePeriodSeconds: {{ .grace }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {matchLabels: {app.kubernetes.io/name: {{ $name }}}}
      {{- with $values.pod }}{{ toYaml . | nindent 6 }}{{ end }}
      securityContext:
        {{- mergeOverwrite (deepCopy .root.Values.podSecurityContext) ($values.podSecurityContext | default dict) | toYaml | nindent 8 }}
{{- end -}}

{{- /* Image, command and variables of a container. */ -}}
{{- define "workflow-api.container" -}}
- name: {{ .part }}
  image: {{ include "workflow-api.image" .root }}
  {{- with .root.Values.image.pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  args: [{{ .part }}]
  env:
    - {name: WORKFLOW_API_CONFIG, value: /etc/workflow-api/settings.toml}
    # For the port `metrics`; network policies restrict its clients.
    - {name: WORKFLOW_API_METRICS_LISTEN, value: "0.0.0.0:{{ .root.Values.metrics.port }}"}
    {{- with (index .root.Values .part).env }}{{ toYaml . | nindent 4 }}{{ end }}
    {{- if .data }}
    # The volume belongs to root, and the service requires a data folder of its own user.
    - {name: WORKFLOW_API_DATA, value: /var/lib/workflow-api/data}
    {{- if .root.Values.secrets.objects.enabled }}
    - {name: AWS_SHARED_CREDENTIALS_FILE, value: /run/secrets/objects/{{ .root.Values.secrets.objects.key }}}
    {{- end }}
    {{- end }}
{{- end -}}

{{- define "workflow-api.limits" -}}
securityContext: {{- toYaml .root.Values.containerSecurityContext | nindent 2 }}
resources: {{- toYaml (index .root.Values .part).resources | nindent 2 }}
{{- end -}}

{{- /* Mounts of a part that uses the database and the objects. */ -}}
{{- define "workflow-api.data-mounts" -}}
- {name: database, mountPath: /run/secrets/database, readOnly: true}
{{- if .Values.secrets.objects.enabled }}
- {name: objects, mountPath: /run/secrets/objects, readOnly: true}
{{- end }}
{{- range .Values.secrets.more }}
- {name: more-{{ .folder }}, mountPath: /run/secrets/{{ .folder }}, readOnly: true}
{{- end }}
- {name: data, mountPath: /var/lib/workflow-api}
{{- end -}}

{{- define "workflow-api.data-volumes" -}}
{{- $root := .root }}
{{- with .root.Values.secrets -}}
- {name: database, secret: {secretName: {{ include "workflow-api.secret" (list $root .database.name "database") }}, defaultMode: 0440}}
{{- if .objects.enabled }}
- {name: objects, secret: {secretName: {{ include "workflow-api.secret" (list $root .objects.name "objects") }}, defaultMode: 0440, optional: true}}
{{- end }}
{{- range .more }}
- {name: more-{{ .folder }}, secret: {secretName: {{ .name }}, defaultMode: 0440}}
{{- end }}
{{- end }}
- {name: data, emptyDir: {sizeLimit: {{ (index .root.Values .part).dataSize }}}}
{{- end -}}

{{- define "workflow-api.budget" -}}
{{- $name := printf "%s-%s" (include "workflow-api.name" .root) .part -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: {{ $name }}}
spec:
  maxUnavailable: {{ (index .root.Values .part).maxUnavailable }}
  selector: {matchLabels: {app.kubernetes.io/name: {{ $name }}}}
{{- end -}}

{{- define "workflow-api.autoscaler" -}}
{{- $name := printf "%s-%s" (include "workflow-api.name" .root) .part -}}
{{- with (index .root.Values .part).autoscaling -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: {{ $name }}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $name }}}
  minReplicas: {{ .minReplicas }}
  maxReplicas: {{ .maxReplicas }}
  metrics:
    {{- if .cpu }}
    - {type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: {{ .cpu }}}}}
    {{- else }}
    - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: {{ .utilization }}}}}
    {{- end }}
  {{- with .behavior }}
  behavior: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}
