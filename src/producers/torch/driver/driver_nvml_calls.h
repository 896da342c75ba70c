/* The functions of the NVML API that the stand-in refuses, without their prefix "nvml". They exist so that a library
 * that links them can be loaded, and so that memtrace can report a call by name. The list follows the documentation of
 * CUDA 13. */
#pragma once

/* clang-format off */
#define MT_NVML_CALLS(X) \
    X(ComputeInstanceDestroy) X(ComputeInstanceGetInfo_v2) X(DeviceClearAccountingPids) X(DeviceClearCpuAffinity) \
    X(DeviceClearEccErrorCounts) X(DeviceClearFieldValues) X(DeviceCreateGpuInstance) \
    X(DeviceCreateGpuInstanceWithPlacement) X(DeviceDiscoverGpus) X(DeviceFreezeNvLinkUtilizationCounter) \
    X(DeviceGetAPIRestriction) X(DeviceGetAccountingBufferSize) X(DeviceGetAccountingMode) \
    X(DeviceGetAccountingPids) X(DeviceGetAccountingStats) X(DeviceGetAccountingStats_v2) X(DeviceGetActiveVgpus) \
    X(DeviceGetAdaptiveClockInfoStatus) X(DeviceGetAdaptiveTgpModeInfo_v1) X(DeviceGetAddressingMode) \
    X(DeviceGetApplicationsClock) X(DeviceGetArchitecture) X(DeviceGetAttributes_v2) \
    X(DeviceGetAutoBoostedClocksEnabled) X(DeviceGetBAR1MemoryInfo) X(DeviceGetBBXTimeData_v1) \
    X(DeviceGetBankRemapperStatus_v1) X(DeviceGetBoardId) X(DeviceGetBoardPartNumber) X(DeviceGetBrand) \
    X(DeviceGetBridgeChipInfo) X(DeviceGetBusType) X(DeviceGetC2cModeInfoV) X(DeviceGetCapabilities) \
    X(DeviceGetClkMonStatus) X(DeviceGetClock) X(DeviceGetClockOffsets) X(DeviceGetComputeInstanceId) \
    X(DeviceGetComputeMode) \
    X(DeviceGetConfComputeGpuAttestationReport) X(DeviceGetConfComputeGpuCertificate) \
    X(DeviceGetConfComputeMemSizeInfo) X(DeviceGetConfComputeProtectedMemoryUsage) X(DeviceGetCoolerInfo) \
    X(DeviceGetCpuAffinity) X(DeviceGetCpuAffinityWithinScope) X(DeviceGetCreatableVgpus) \
    X(DeviceGetCurrPcieLinkGeneration) X(DeviceGetCurrPcieLinkWidth) X(DeviceGetCurrentClockFreqs) \
    X(DeviceGetCurrentClocksEventReasons) X(DeviceGetCurrentClocksThrottleReasons) X(DeviceGetDecoderUtilization) \
    X(DeviceGetDefaultApplicationsClock) X(DeviceGetDefaultEccMode) X(DeviceGetDetailedEccErrors) \
    X(DeviceGetDeviceHandleFromMigDeviceHandle) X(DeviceGetDisplayActive) X(DeviceGetDisplayMode) \
    X(DeviceGetDramEncryptionMode) X(DeviceGetDriverModel) X(DeviceGetDriverModel_v2) X(DeviceGetDynamicPstatesInfo) \
    X(DeviceGetEccMode) X(DeviceGetEncoderCapacity) X(DeviceGetEncoderSessions) X(DeviceGetEncoderStats) \
    X(DeviceGetEncoderUtilization) X(DeviceGetEnforcedPowerLimit) X(DeviceGetFBCSessions) X(DeviceGetFBCStats) \
    X(DeviceGetFanControlPolicy_v2) X(DeviceGetFanSpeed) X(DeviceGetFanSpeedRPM) X(DeviceGetFanSpeed_v2) \
    X(DeviceGetFieldValues) X(DeviceGetGpcClkMinMaxVfOffset) X(DeviceGetGpcClkVfOffset) X(DeviceGetGpuFabricInfo) \
    X(DeviceGetGpuFabricInfoV) X(DeviceGetGpuFabricInfo_v4) X(DeviceGetGpuInstanceById) X(DeviceGetGpuInstanceId) \
    X(DeviceGetGpuInstancePossiblePlacements_v2) X(DeviceGetGpuInstanceProfileInfo) \
    X(DeviceGetGpuInstanceProfileInfoByIdV) X(DeviceGetGpuInstanceProfileInfoV) \
    X(DeviceGetGpuInstanceRemainingCapacity) X(DeviceGetGpuInstances) X(DeviceGetGpuMaxPcieLinkGeneration) \
    X(DeviceGetGpuOperationMode) \
    X(DeviceGetGridLicensableFeatures_v4) X(DeviceGetGspFirmwareMode) X(DeviceGetGspFirmwareVersion) \
    X(DeviceGetHandleByPciBusId_v2) X(DeviceGetHandleBySerial) X(DeviceGetHandleByUUIDV) X(DeviceGetHostVgpuMode) \
    X(DeviceGetHostname_v1) X(DeviceGetInforomConfigurationChecksum) X(DeviceGetInforomImageVersion) \
    X(DeviceGetInforomVersion) X(DeviceGetIrqNum) X(DeviceGetJpgUtilization) X(DeviceGetLastBBXFlushTime) \
    X(DeviceGetMPSComputeRunningProcesses_v2) X(DeviceGetMPSComputeRunningProcesses_v3) \
    X(DeviceGetMarginTemperature) X(DeviceGetMaxClockInfo) X(DeviceGetMaxCustomerBoostClock) \
    X(DeviceGetMaxMigDeviceCount) X(DeviceGetMaxPcieLinkGeneration) X(DeviceGetMaxPcieLinkWidth) \
    X(DeviceGetMemClkMinMaxVfOffset) X(DeviceGetMemClkVfOffset) X(DeviceGetMemoryAffinity) \
    X(DeviceGetMemoryBusWidth) X(DeviceGetMemoryErrorCounter) X(DeviceGetMemoryLimits_v1) \
    X(DeviceGetMigDeviceHandleByIndex) X(DeviceGetMigMode) X(DeviceGetMinMaxClockOfPState) \
    X(DeviceGetMinMaxFanSpeed) X(DeviceGetModuleId) X(DeviceGetMultiGpuBoard) X(DeviceGetNumFans) \
    X(DeviceGetNumGpuCores) X(DeviceGetNumaNodeId) X(DeviceGetNvLinkCapability) X(DeviceGetNvLinkErrorCounter) \
    X(DeviceGetNvLinkInfo) X(DeviceGetNvLinkRemoteDeviceType) X(DeviceGetNvLinkRemotePciInfo_v2) \
    X(DeviceGetNvLinkState) X(DeviceGetNvLinkTelemetrySamples_v1) X(DeviceGetNvLinkUtilizationControl) \
    X(DeviceGetNvLinkUtilizationCounter) X(DeviceGetNvLinkVersion) X(DeviceGetNvlinkBwMode) \
    X(DeviceGetNvlinkSupportedBwModes) X(DeviceGetOfaUtilization) X(DeviceGetP2PStatus) X(DeviceGetPciInfoExt) \
    X(DeviceGetPciInfo_v3) X(DeviceGetPcieLinkMaxSpeed) X(DeviceGetPcieReplayCounter) X(DeviceGetPcieSpeed) \
    X(DeviceGetPcieThroughput) X(DeviceGetPdi) X(DeviceGetPerformanceModes) X(DeviceGetPerformanceState) \
    X(DeviceGetPersistenceMode) X(DeviceGetPgpuMetadataString) X(DeviceGetPlatformInfo) \
    X(DeviceGetPowerManagementDefaultLimit) X(DeviceGetPowerManagementLimit) \
    X(DeviceGetPowerManagementLimitConstraints) X(DeviceGetPowerManagementMode) X(DeviceGetPowerMizerMode_v1) \
    X(DeviceGetPowerSource) X(DeviceGetPowerState) X(DeviceGetProcessUtilization) \
    X(DeviceGetProcessesUtilizationInfo) X(DeviceGetRemappedRows) X(DeviceGetRemappedRows_v2) \
    X(DeviceGetRepairStatus) X(DeviceGetRetiredPages) X(DeviceGetRetiredPagesPendingStatus) \
    X(DeviceGetRetiredPages_v2) X(DeviceGetRowRemapperHistogram) X(DeviceGetRunningProcessDetailList) \
    X(DeviceGetSamples) X(DeviceGetSerial) X(DeviceGetSramEccErrorStatus) \
    X(DeviceGetSramUniqueUncorrectedEccErrorCounts) X(DeviceGetSupportedClocksEventReasons) \
    X(DeviceGetSupportedClocksThrottleReasons) X(DeviceGetSupportedEventTypes) X(DeviceGetSupportedGraphicsClocks) \
    X(DeviceGetSupportedMemoryClocks) X(DeviceGetSupportedPerformanceStates) X(DeviceGetSupportedVgpus) \
    X(DeviceGetTargetFanSpeed) X(DeviceGetTemperatureThreshold) X(DeviceGetTemperatureV) X(DeviceGetThermalSettings) \
    X(DeviceGetTopologyCommonAncestor) X(DeviceGetTopologyNearestGpus) X(DeviceGetTotalEccErrors) \
    X(DeviceGetTotalEnergyConsumption) X(DeviceGetUnrepairableMemoryFlag_v1) X(DeviceGetVbiosVersion) \
    X(DeviceGetVgpuCapabilities) X(DeviceGetVgpuHeterogeneousMode) X(DeviceGetVgpuInstancesUtilizationInfo) \
    X(DeviceGetVgpuMetadata) X(DeviceGetVgpuProcessUtilization) X(DeviceGetVgpuProcessesUtilizationInfo) \
    X(DeviceGetVgpuSchedulerCapabilities) X(DeviceGetVgpuSchedulerLog) X(DeviceGetVgpuSchedulerLog_v2) \
    X(DeviceGetVgpuSchedulerState) X(DeviceGetVgpuSchedulerState_v2) X(DeviceGetVgpuTypeCreatablePlacements) \
    X(DeviceGetVgpuTypeSupportedPlacements) X(DeviceGetVgpuUtilization) X(DeviceGetViolationStatus) \
    X(DeviceGetVirtualizationMode) X(DeviceIsMigDeviceHandle) X(DeviceModifyDrainState) X(DeviceOnSameBoard) \
    X(DevicePerfMetricsGetSamples_v1) X(DevicePowerSmoothingActivatePresetProfile) X(DevicePowerSmoothingSetState) \
    X(DevicePowerSmoothingUpdatePresetProfileParam) X(DeviceQueryDrainState) X(DeviceReadPRMCounters_v1) \
    X(DeviceReadWritePRM_v1) X(DeviceRegisterEvents) X(DeviceRemoveGpu) X(DeviceResetApplicationsClocks) \
    X(DeviceResetGpuLockedClocks) X(DeviceResetMemoryLockedClocks) X(DeviceResetNvLinkErrorCounters) \
    X(DeviceResetNvLinkUtilizationCounter) X(DeviceSetAPIRestriction) X(DeviceSetAccountingMode) \
    X(DeviceSetAdaptiveTgpMode_v1) X(DeviceSetApplicationsClocks) X(DeviceSetAutoBoostedClocksEnabled) \
    X(DeviceSetClockOffsets) X(DeviceSetComputeMode) X(DeviceSetConfComputeUnprotectedMemSize) \
    X(DeviceSetCpuAffinity) X(DeviceSetDefaultAutoBoostedClocksEnabled) X(DeviceSetDefaultFanSpeed_v2) \
    X(DeviceSetDramEncryptionMode) X(DeviceSetDriverModel) X(DeviceSetEccMode) X(DeviceSetFanControlPolicy) \
    X(DeviceSetFanSpeed_v2) X(DeviceSetGpcClkVfOffset) X(DeviceSetGpuLockedClocks) X(DeviceSetGpuOperationMode) \
    X(DeviceSetHostname_v1) X(DeviceSetMemClkVfOffset) X(DeviceSetMemoryLimits_v1) X(DeviceSetMemoryLockedClocks) \
    X(DeviceSetMigMode) X(DeviceSetNvLinkDeviceLowPowerThreshold) X(DeviceSetNvLinkUtilizationControl) \
    X(DeviceSetNvlinkBwMode) X(DeviceSetNvlinkBwModeAsync_v1) X(DeviceSetPersistenceMode) \
    X(DeviceSetPowerManagementLimit) X(DeviceSetPowerManagementLimit_v2) X(DeviceSetPowerMizerMode_v1) \
    X(DeviceSetRusdSettings_v1) X(DeviceSetTemperatureThreshold) X(DeviceSetVgpuCapabilities) \
    X(DeviceSetVgpuHeterogeneousMode) X(DeviceSetVgpuSchedulerState) X(DeviceSetVgpuSchedulerState_v2) \
    X(DeviceSetVirtualizationMode) X(DeviceValidateInforom) X(DeviceVgpuForceGspUnload) \
    X(DeviceWorkloadPowerProfileClearRequestedProfiles) X(DeviceWorkloadPowerProfileGetCurrentProfiles) \
    X(DeviceWorkloadPowerProfileGetProfilesInfo) X(DeviceWorkloadPowerProfileSetRequestedProfiles) \
    X(DeviceWorkloadPowerProfileUpdateProfiles_v1) X(EventSetCreate) X(EventSetFree) X(EventSetGetContextCount_v1) \
    X(EventSetGetContextData_v1) X(EventSetGetContextInfo_v1) X(EventSetGetGpuOperationalEventContextLegacyXid_v1) \
    X(EventSetRegisterGpuOperationalEvents_v1) X(EventSetWait_v2) X(EventSetWait_v3) X(GetExcludedDeviceCount) \
    X(GetExcludedDeviceInfoByIndex) X(GetVgpuCompatibility) X(GetVgpuDriverCapabilities) X(GetVgpuVersion) \
    X(GpmMetricsGet) X(GpmMigSampleGet) X(GpmQueryDeviceSupport) X(GpmQueryIfStreamingEnabled) X(GpmSampleAlloc) \
    X(GpmSampleFree) X(GpmSampleGet) X(GpmSetStreamingEnabled) X(GpuInstanceCreateComputeInstance) \
    X(GpuInstanceCreateComputeInstanceWithPlacement) X(GpuInstanceDestroy) X(GpuInstanceGetActiveVgpus) \
    X(GpuInstanceGetComputeInstanceById) X(GpuInstanceGetComputeInstancePossiblePlacements) \
    X(GpuInstanceGetComputeInstanceProfileInfo) X(GpuInstanceGetComputeInstanceProfileInfoV) \
    X(GpuInstanceGetComputeInstanceRemainingCapacity) X(GpuInstanceGetComputeInstances) \
    X(GpuInstanceGetCreatableVgpus) X(GpuInstanceGetInfo) X(GpuInstanceGetVgpuHeterogeneousMode) \
    X(GpuInstanceGetVgpuSchedulerLog) X(GpuInstanceGetVgpuSchedulerLog_v2) X(GpuInstanceGetVgpuSchedulerState) \
    X(GpuInstanceGetVgpuSchedulerState_v2) X(GpuInstanceGetVgpuTypeCreatablePlacements) \
    X(GpuInstanceSetVgpuHeterogeneousMode) X(GpuInstanceSetVgpuSchedulerState) \
    X(GpuInstanceSetVgpuSchedulerState_v2) X(SetVgpuVersion) X(SystemEventSetCreate) X(SystemEventSetFree) \
    X(SystemEventSetWait) X(SystemGetCPER_v1) X(SystemGetConfComputeCapabilities) \
    X(SystemGetConfComputeGpusReadyState) X(SystemGetConfComputeKeyRotationThresholdInfo) \
    X(SystemGetConfComputeSettings) X(SystemGetConfComputeState) X(SystemGetDriverBranch) X(SystemGetHicVersion) \
    X(SystemGetNvlinkBwMode) X(SystemGetProcessName) X(SystemGetTopologyGpuSet) X(SystemRegisterEvents) \
    X(SystemSetConfComputeGpusReadyState) X(SystemSetConfComputeKeyRotationThresholdInfo) X(SystemSetNvlinkBwMode) \
    X(UnitGetCount) X(UnitGetDevices) X(UnitGetFanSpeedInfo) X(UnitGetHandleByIndex) X(UnitGetLedState) \
    X(UnitGetPsuInfo) X(UnitGetTemperature) X(UnitGetUnitInfo) X(UnitSetLedState) X(VgpuInstanceClearAccountingPids) \
    X(VgpuInstanceGetAccountingMode) X(VgpuInstanceGetAccountingPids) X(VgpuInstanceGetAccountingStats) \
    X(VgpuInstanceGetEccMode) X(VgpuInstanceGetEncoderCapacity) X(VgpuInstanceGetEncoderSessions) \
    X(VgpuInstanceGetEncoderStats) X(VgpuInstanceGetFBCSessions) X(VgpuInstanceGetFBCStats) \
    X(VgpuInstanceGetFbUsage) X(VgpuInstanceGetFrameRateLimit) X(VgpuInstanceGetGpuInstanceId) \
    X(VgpuInstanceGetGpuPciId) X(VgpuInstanceGetLicenseInfo_v2) X(VgpuInstanceGetLicenseStatus) \
    X(VgpuInstanceGetMdevUUID) X(VgpuInstanceGetMetadata) X(VgpuInstanceGetPlacementId) \
    X(VgpuInstanceGetRuntimeStateSize) X(VgpuInstanceGetType) X(VgpuInstanceGetUUID) \
    X(VgpuInstanceGetVmDriverVersion) X(VgpuInstanceGetVmID) X(VgpuInstanceSetEncoderCapacity) \
    X(VgpuTypeGetBAR1Info) X(VgpuTypeGetCapabilities) X(VgpuTypeGetClass) X(VgpuTypeGetDeviceID) \
    X(VgpuTypeGetFbReservation) X(VgpuTypeGetFrameRateLimit) X(VgpuTypeGetFramebufferSize) \
    X(VgpuTypeGetGpuInstanceProfileId) X(VgpuTypeGetGspHeapSize) X(VgpuTypeGetLicense) X(VgpuTypeGetMaxInstances) \
    X(VgpuTypeGetMaxInstancesPerGpuInstance) X(VgpuTypeGetMaxInstancesPerVm) X(VgpuTypeGetName) \
    X(VgpuTypeGetNumDisplayHeads) X(VgpuTypeGetResolution)
/* clang-format on */
