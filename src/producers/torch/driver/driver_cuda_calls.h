/* The functions of the CUDA driver API that the stand-in refuses, without their prefix "cu". They exist so that a
 * library that links them can be loaded, and so that memtrace can report a call by name. The list follows the
 * documentation of CUDA 13. */
#pragma once

/* clang-format off */
#define MT_CUDA_CALLS(X) \
    X(Array3DCreate) X(Array3DCreate_v2) X(Array3DGetDescriptor) X(Array3DGetDescriptor_v2) X(ArrayCreate) \
    X(ArrayCreate_v2) X(ArrayDestroy) X(ArrayGetDescriptor) X(ArrayGetDescriptor_v2) X(ArrayGetMemoryRequirements) \
    X(ArrayGetPlane) X(ArrayGetSparseProperties) X(CheckpointProcessCheckpoint) \
    X(CheckpointProcessGetRestoreThreadId) X(CheckpointProcessGetState) X(CheckpointProcessLock) \
    X(CheckpointProcessRestore) X(CheckpointProcessUnlock) X(CoredumpGetAttribute) X(CoredumpGetAttributeGlobal) \
    X(CoredumpSetAttribute) X(CoredumpSetAttributeGlobal) X(CtxAttach) X(CtxCreate) X(CtxCreate_v2) X(CtxCreate_v3) \
    X(CtxCreate_v4) X(CtxDestroy) X(CtxDestroy_v2) X(CtxDetach) X(CtxDisablePeerAccess) X(CtxEnablePeerAccess) \
    X(CtxFromGreenCtx) X(CtxGetApiVersion) X(CtxGetCacheConfig) X(CtxGetDevResource) X(CtxGetDevice_v2) \
    X(CtxGetExecAffinity) X(CtxGetFlags) X(CtxGetId) X(CtxGetLimit) X(CtxGetSharedMemConfig) \
    X(CtxGetStreamPriorityRange) X(CtxPopCurrent) X(CtxPopCurrent_v2) X(CtxPushCurrent) X(CtxPushCurrent_v2) \
    X(CtxRecordEvent) X(CtxResetPersistingL2Cache) X(CtxSetCacheConfig) X(CtxSetFlags) X(CtxSetLimit) \
    X(CtxSetSharedMemConfig) X(CtxSynchronize_v2) X(CtxWaitEvent) X(DestroyExternalMemory) \
    X(DestroyExternalSemaphore) X(DevResourceGenerateDesc) X(DevSmResourceSplitByCount) X(DeviceCanAccessPeer) \
    X(DeviceGetByPCIBusId) X(DeviceGetDefaultMemPool) X(DeviceGetDevResource) X(DeviceGetExecAffinitySupport) \
    X(DeviceGetGraphMemAttribute) X(DeviceGetHostAtomicCapabilities) X(DeviceGetLuid) X(DeviceGetMemPool) \
    X(DeviceGetP2PAtomicCapabilities) X(DeviceGetP2PAttribute) X(DeviceGetPCIBusId) X(DeviceGetProperties) \
    X(DeviceGetTexture1DLinearMaxWidth) X(DeviceGraphMemTrim) X(DevicePrimaryCtxReset) X(DevicePrimaryCtxReset_v2) \
    X(DevicePrimaryCtxSetFlags) X(DevicePrimaryCtxSetFlags_v2) X(DeviceRegisterAsyncNotification) \
    X(DeviceSetGraphMemAttribute) X(DeviceSetMemPool) X(DeviceUnregisterAsyncNotification) X(DeviceTotalMem) X(MemGetInfo) \
    X(DevicePrimaryCtxRelease) X(EventCreate) \
    X(EventDestroy) X(EventDestroy_v2) X(EventElapsedTime) X(EventElapsedTime_v2) X(EventQuery) X(EventRecord) \
    X(EventRecordWithFlags) X(EventSynchronize) X(ExternalMemoryGetMappedBuffer) \
    X(ExternalMemoryGetMappedMipmappedArray) X(FlushGPUDirectRDMAWrites) X(FuncGetAttribute) X(FuncGetModule) \
    X(FuncGetName) X(FuncGetParamInfo) X(FuncIsLoaded) X(FuncSetBlockShape) \
    X(FuncSetSharedMemConfig) X(FuncSetSharedSize) X(GraphAddBatchMemOpNode) \
    X(GraphAddChildGraphNode) X(GraphAddDependencies) X(GraphAddDependencies_v2) X(GraphAddEmptyNode) \
    X(GraphAddEventRecordNode) X(GraphAddEventWaitNode) X(GraphAddExternalSemaphoresSignalNode) \
    X(GraphAddExternalSemaphoresWaitNode) X(GraphAddHostNode) X(GraphAddKernelNode) X(GraphAddKernelNode_v2) \
    X(GraphAddMemAllocNode) X(GraphAddMemFreeNode) X(GraphAddMemcpyNode) X(GraphAddMemsetNode) X(GraphAddNode) \
    X(GraphAddNode_v2) X(GraphBatchMemOpNodeGetParams) X(GraphBatchMemOpNodeSetParams) \
    X(GraphChildGraphNodeGetGraph) X(GraphClone) X(GraphConditionalHandleCreate) X(GraphCreate) \
    X(GraphDebugDotPrint) X(GraphDestroy) X(GraphDestroyNode) X(GraphEventRecordNodeGetEvent) \
    X(GraphEventRecordNodeSetEvent) X(GraphEventWaitNodeGetEvent) X(GraphEventWaitNodeSetEvent) \
    X(GraphExecBatchMemOpNodeSetParams) X(GraphExecChildGraphNodeSetParams) X(GraphExecDestroy) \
    X(GraphExecEventRecordNodeSetEvent) X(GraphExecEventWaitNodeSetEvent) \
    X(GraphExecExternalSemaphoresSignalNodeSetParams) X(GraphExecExternalSemaphoresWaitNodeSetParams) \
    X(GraphExecGetFlags) X(GraphExecHostNodeSetParams) X(GraphExecKernelNodeSetParams) \
    X(GraphExecKernelNodeSetParams_v2) X(GraphExecMemcpyNodeSetParams) X(GraphExecMemsetNodeSetParams) \
    X(GraphExecNodeSetParams) X(GraphExecUpdate) X(GraphExecUpdate_v2) X(GraphExternalSemaphoresSignalNodeGetParams) \
    X(GraphExternalSemaphoresSignalNodeSetParams) X(GraphExternalSemaphoresWaitNodeGetParams) \
    X(GraphExternalSemaphoresWaitNodeSetParams) X(GraphGetEdges) X(GraphGetEdges_v2) X(GraphGetNodes) \
    X(GraphGetRootNodes) X(GraphHostNodeGetParams) X(GraphHostNodeSetParams) X(GraphInstantiate) \
    X(GraphInstantiateWithFlags) X(GraphInstantiateWithParams) X(GraphInstantiate_v2) \
    X(GraphKernelNodeCopyAttributes) X(GraphKernelNodeGetAttribute) X(GraphKernelNodeGetParams) \
    X(GraphKernelNodeGetParams_v2) X(GraphKernelNodeSetAttribute) X(GraphKernelNodeSetParams) \
    X(GraphKernelNodeSetParams_v2) X(GraphLaunch) X(GraphMemAllocNodeGetParams) X(GraphMemFreeNodeGetParams) \
    X(GraphMemcpyNodeGetParams) X(GraphMemcpyNodeSetParams) X(GraphMemsetNodeGetParams) X(GraphMemsetNodeSetParams) \
    X(GraphNodeFindInClone) X(GraphNodeGetDependencies) X(GraphNodeGetDependencies_v2) X(GraphNodeGetDependentNodes) \
    X(GraphNodeGetDependentNodes_v2) X(GraphNodeGetEnabled) X(GraphNodeGetType) X(GraphNodeSetEnabled) \
    X(GraphNodeSetParams) X(GraphReleaseUserObject) X(GraphRemoveDependencies) X(GraphRemoveDependencies_v2) \
    X(GraphRetainUserObject) X(GraphUpload) X(GraphicsMapResources) X(GraphicsResourceGetMappedEglFrame) \
    X(GraphicsResourceGetMappedMipmappedArray) X(GraphicsResourceGetMappedPointer) \
    X(GraphicsResourceGetMappedPointer_v2) X(GraphicsResourceSetMapFlags) X(GraphicsResourceSetMapFlags_v2) \
    X(GraphicsSubResourceGetMappedArray) X(GraphicsUnmapResources) X(GraphicsUnregisterResource) X(GreenCtxCreate) \
    X(GreenCtxDestroy) X(GreenCtxGetDevResource) X(GreenCtxGetId) X(GreenCtxRecordEvent) X(GreenCtxStreamCreate) \
    X(GreenCtxWaitEvent) X(ImportExternalMemory) X(ImportExternalSemaphore) X(IpcCloseMemHandle) \
    X(IpcGetEventHandle) X(IpcGetMemHandle) X(IpcOpenEventHandle) X(IpcOpenMemHandle) X(IpcOpenMemHandle_v2) \
    X(KernelGetAttribute) X(KernelGetLibrary) X(KernelGetName) X(KernelGetParamInfo) \
    X(Launch) \
    X(LaunchCooperativeKernelMultiDevice) X(LaunchGrid) X(LaunchGridAsync) X(LaunchHostFunc) \
    X(LibraryEnumerateKernels) X(LibraryGetGlobal) X(LibraryGetKernelCount) \
    X(LibraryGetManaged) X(LibraryGetUnifiedFunction) \
    X(LinkAddData) X(LinkAddData_v2) X(LinkAddFile) X(LinkAddFile_v2) X(LinkComplete) X(LinkCreate) \
    X(LinkCreate_v2) X(LinkDestroy) X(LogsCurrent) X(LogsDumpToFile) X(LogsDumpToMemory) X(LogsRegisterCallback) \
    X(LogsUnregisterCallback) X(MemAddressFree) X(MemAddressReserve) X(MemAdvise) X(MemAdvise_v2) X(MemAlloc) \
    X(MemAllocAsync) X(MemAllocFromPoolAsync) X(MemAllocHost) X(MemAllocHost_v2) X(MemAllocManaged) X(MemAllocPitch) \
    X(MemAllocPitch_v2) X(MemAlloc_v2) X(MemBatchDecompressAsync) X(MemCreate) X(MemDiscardAndPrefetchBatchAsync) \
    X(MemDiscardBatchAsync) X(MemExportToShareableHandle) X(MemFree) X(MemFreeAsync) X(MemFreeHost) X(MemFree_v2) \
    X(MemGetAccess) X(MemGetAddressRange) X(MemGetAddressRange_v2) X(MemGetAllocationGranularity) \
    X(MemGetAllocationPropertiesFromHandle) X(MemGetDefaultMemPool) X(MemGetHandleForAddressRange) X(MemGetMemPool) \
    X(MemHostAlloc) X(MemHostGetDevicePointer) X(MemHostGetDevicePointer_v2) X(MemHostGetFlags) X(MemHostRegister) \
    X(MemHostRegister_v2) X(MemHostUnregister) X(MemImportFromShareableHandle) X(MemMap) X(MemMapArrayAsync) \
    X(MemPoolCreate) X(MemPoolDestroy) X(MemPoolExportPointer) X(MemPoolExportToShareableHandle) X(MemPoolGetAccess) \
    X(MemPoolGetAttribute) X(MemPoolImportFromShareableHandle) X(MemPoolImportPointer) X(MemPoolSetAccess) \
    X(MemPoolSetAttribute) X(MemPoolTrimTo) X(MemPrefetchAsync) X(MemPrefetchAsync_v2) X(MemPrefetchBatchAsync) \
    X(MemRangeGetAttribute) X(MemRangeGetAttributes) X(MemRelease) X(MemRetainAllocationHandle) X(MemSetAccess) \
    X(MemSetMemPool) X(MemUnmap) X(Memcpy) X(Memcpy2D) X(Memcpy2DAsync) X(Memcpy2DAsync_v2) X(Memcpy2DUnaligned) \
    X(Memcpy2DUnaligned_v2) X(Memcpy2D_v2) X(Memcpy3D) X(Memcpy3DAsync) X(Memcpy3DAsync_v2) X(Memcpy3DBatchAsync) \
    X(Memcpy3DBatchAsync_v2) X(Memcpy3DPeer) X(Memcpy3DPeerAsync) X(Memcpy3D_v2) X(MemcpyAsync) X(MemcpyAtoA) \
    X(MemcpyAtoA_v2) X(MemcpyAtoD) X(MemcpyAtoD_v2) X(MemcpyAtoH) X(MemcpyAtoHAsync) X(MemcpyAtoHAsync_v2) \
    X(MemcpyAtoH_v2) X(MemcpyBatchAsync) X(MemcpyBatchAsync_v2) X(MemcpyDtoA) X(MemcpyDtoA_v2) X(MemcpyDtoD) \
    X(MemcpyDtoDAsync) X(MemcpyDtoDAsync_v2) X(MemcpyDtoD_v2) X(MemcpyDtoH) X(MemcpyDtoHAsync) X(MemcpyDtoHAsync_v2) \
    X(MemcpyDtoH_v2) X(MemcpyHtoA) X(MemcpyHtoAAsync) X(MemcpyHtoAAsync_v2) X(MemcpyHtoA_v2) X(MemcpyHtoD) \
    X(MemcpyHtoDAsync) X(MemcpyHtoDAsync_v2) X(MemcpyHtoD_v2) X(MemcpyPeer) X(MemcpyPeerAsync) X(MemsetD16) \
    X(MemsetD16Async) X(MemsetD16_v2) X(MemsetD2D16) X(MemsetD2D16Async) X(MemsetD2D16_v2) X(MemsetD2D32) \
    X(MemsetD2D32Async) X(MemsetD2D32_v2) X(MemsetD2D8) X(MemsetD2D8Async) X(MemsetD2D8_v2) X(MemsetD32) \
    X(MemsetD32Async) X(MemsetD32_v2) X(MemsetD8) X(MemsetD8Async) X(MemsetD8_v2) X(MipmappedArrayCreate) \
    X(MipmappedArrayDestroy) X(MipmappedArrayGetLevel) X(MipmappedArrayGetMemoryRequirements) \
    X(MipmappedArrayGetSparseProperties) X(ModuleEnumerateFunctions) X(ModuleGetFunctionCount) \
    X(ModuleGetGlobal) X(ModuleGetGlobal_v2) X(ModuleGetLoadingMode) X(ModuleGetSurfRef) X(ModuleGetTexRef) \
    X(MulticastAddDevice) \
    X(MulticastBindAddr) X(MulticastBindMem) X(MulticastCreate) X(MulticastGetGranularity) X(MulticastUnbind) \
    X(OccupancyAvailableDynamicSMemPerBlock) X(OccupancyMaxActiveBlocksPerMultiprocessor) \
    X(OccupancyMaxActiveBlocksPerMultiprocessorWithFlags) X(OccupancyMaxActiveClusters) \
    X(OccupancyMaxPotentialBlockSize) X(OccupancyMaxPotentialBlockSizeWithFlags) X(OccupancyMaxPotentialClusterSize) \
    X(ParamSetSize) X(ParamSetTexRef) X(ParamSetf) X(ParamSeti) X(ParamSetv) X(PointerGetAttribute) \
    X(PointerGetAttributes) X(PointerSetAttribute) X(SignalExternalSemaphoresAsync) X(StreamAddCallback) \
    X(StreamAttachMemAsync) X(StreamBatchMemOp) X(StreamBatchMemOp_v2) X(StreamBeginCapture) \
    X(StreamBeginCaptureToGraph) X(StreamBeginCapture_v2) X(StreamCopyAttributes) X(StreamCreate) \
    X(StreamCreateWithPriority) X(StreamDestroy) X(StreamDestroy_v2) X(StreamEndCapture) X(StreamGetAttribute) \
    X(StreamGetCaptureInfo) X(StreamGetCaptureInfo_v2) X(StreamGetCaptureInfo_v3) X(StreamGetCtx) X(StreamGetCtx_v2) \
    X(StreamGetDevice) X(StreamGetFlags) X(StreamGetGreenCtx) X(StreamGetId) X(StreamGetPriority) \
    X(StreamIsCapturing) X(StreamQuery) X(StreamSetAttribute) X(StreamSynchronize) \
    X(StreamUpdateCaptureDependencies) X(StreamUpdateCaptureDependencies_v2) X(StreamWaitEvent) X(StreamWaitValue32) \
    X(StreamWaitValue32_v2) X(StreamWaitValue64) X(StreamWaitValue64_v2) X(StreamWriteValue32) \
    X(StreamWriteValue32_v2) X(StreamWriteValue64) X(StreamWriteValue64_v2) X(SurfObjectCreate) X(SurfObjectDestroy) \
    X(SurfObjectGetResourceDesc) X(SurfRefGetArray) X(SurfRefSetArray) X(TensorMapEncodeIm2col) \
    X(TensorMapEncodeIm2colWide) X(TensorMapEncodeTiled) X(TensorMapReplaceAddress) X(TexObjectCreate) \
    X(TexObjectDestroy) X(TexObjectGetResourceDesc) X(TexObjectGetResourceViewDesc) X(TexObjectGetTextureDesc) \
    X(TexRefCreate) X(TexRefDestroy) X(TexRefGetAddress) X(TexRefGetAddressMode) X(TexRefGetAddress_v2) \
    X(TexRefGetArray) X(TexRefGetBorderColor) X(TexRefGetFilterMode) X(TexRefGetFlags) X(TexRefGetFormat) \
    X(TexRefGetMaxAnisotropy) X(TexRefGetMipmapFilterMode) X(TexRefGetMipmapLevelBias) X(TexRefGetMipmapLevelClamp) \
    X(TexRefGetMipmappedArray) X(TexRefSetAddress) X(TexRefSetAddress2D) X(TexRefSetAddress2D_v2) \
    X(TexRefSetAddress2D_v3) X(TexRefSetAddressMode) X(TexRefSetAddress_v2) X(TexRefSetArray) \
    X(TexRefSetBorderColor) X(TexRefSetFilterMode) X(TexRefSetFlags) X(TexRefSetFormat) X(TexRefSetMaxAnisotropy) \
    X(TexRefSetMipmapFilterMode) X(TexRefSetMipmapLevelBias) X(TexRefSetMipmapLevelClamp) X(TexRefSetMipmappedArray) \
    X(ThreadExchangeStreamCaptureMode) X(UserObjectCreate) X(UserObjectRelease) X(UserObjectRetain) \
    X(WaitExternalSemaphoresAsync)
/* clang-format on */
